//! What the server does, over plain HTTP: stories and attacks.

mod device;
