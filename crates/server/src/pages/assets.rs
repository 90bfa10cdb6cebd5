//! The stylesheet, the logo and the script of the demo's products.
//!
//! Pages name them with a hash of their content, so that browsers cache them for good and a new version of the program is
//! seen at once. While instances of two versions run, one may be asked for the other's file: nobody caches that answer.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use identity::secrets;
use std::sync::OnceLock;

/// The stylesheet of all pages.
pub(crate) static STYLESHEET: Asset = Asset {
    path: "/assets/sarsen.css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("../../assets/sarsen.css"),
    address: OnceLock::new(),
};

/// The logo, which is the icon too.
pub(crate) static LOGO: Asset = Asset {
    path: "/assets/logo.svg",
    media_type: "image/svg+xml",
    content: include_str!("../../assets/logo.svg"),
    address: OnceLock::new(),
};

/// The script of the demo's sample products.
pub(crate) static PRODUCT_SCRIPT: Asset = Asset {
    path: "/assets/product.js",
    media_type: "text/javascript; charset=utf-8",
    content: include_str!("../../assets/product.js"),
    address: OnceLock::new(),
};

/// Bytes of the hash in an address.
const VERSION_LENGTH: usize = 9;

/// A file that pages load.
pub(crate) struct Asset {
    path: &'static str,
    media_type: &'static str,
    content: &'static str,
    address: OnceLock<String>,
}

impl Asset {
    /// The path with the version of the content.
    pub(crate) fn address(&self) -> &str {
        self.address.get_or_init(|| {
            let hash = secrets::hash(self.content.as_bytes());
            format!("{}?v={}", self.path, URL_SAFE_NO_PAD.encode(&hash[..VERSION_LENGTH]))
        })
    }

    fn respond(&self, asked: &Uri) -> Response {
        let cached = match asked.path_and_query().map(|asked| asked.as_str()) {
            Some(asked) if asked == self.address() => "public, max-age=31536000, immutable",
            Some(asked) if asked.contains("?v=") => "no-store",
            _ => "public, max-age=3600",
        };
        ([(CONTENT_TYPE, self.media_type), (CACHE_CONTROL, cached)], self.content).into_response()
    }
}

pub(crate) async fn stylesheet(asked: Uri) -> Response {
    STYLESHEET.respond(&asked)
}

pub(crate) async fn product_script(asked: Uri) -> Response {
    PRODUCT_SCRIPT.respond(&asked)
}

pub(crate) async fn logo(asked: Uri) -> Response {
    LOGO.respond(&asked)
}
