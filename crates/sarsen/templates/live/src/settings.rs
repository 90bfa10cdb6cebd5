//! The settings, from the environment: `sarsen dev` sets them.

use live::Error;

/// The organization and the service of `sarsen.yaml`: only their tokens are accepted.
pub const SERVICE: &str = "my-company/my-product";

/// What the back end must know of Sarsen.
pub struct Settings {
    /// The address of the server.
    pub issuer: String,
    /// The id of the page's client.
    pub client_id: String,
    /// A key of the service, by which the back end learns of sessions that end.
    pub api_key: String,
}

impl Settings {
    /// Reads them.
    pub fn of_environment() -> Result<Settings, Error> {
        let required = |name: &str| {
            let rule = "Start the back end with: sarsen dev -- cargo run";
            std::env::var(name).map_err(|_| Error::Arguments(format!("{name} is not set. {rule}")))
        };
        Ok(Settings {
            issuer: required("OIDC_ISSUER")?,
            client_id: required("OIDC_CLIENT_ID")?,
            api_key: required("SERVICE_API_KEY")?,
        })
    }
}
