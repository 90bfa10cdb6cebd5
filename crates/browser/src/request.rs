//! What a browser sends next: after an address was typed, a form was submitted, or an answer redirects.

use crate::Submission;

/// A request of a browser, without its cookies. The sender adds `Host` and `Content-Length`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub is_post: bool,
    /// With the query, without the origin.
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    /// Empty for GET.
    pub body: String,
}

impl Request {
    /// Opens a page.
    pub fn get(path: impl Into<String>) -> Request {
        Request { is_post: false, path: path.into(), headers: Vec::new(), body: String::new() }
    }

    /// Submits a form of the page `current`, which is at `origin`.
    pub fn submit(current: &str, origin: &str, submission: &Submission) -> Request {
        let path = local_path(current, &submission.action);
        let fields =
            form_urlencoded::Serializer::new(String::new()).extend_pairs(&submission.fields).finish();
        if !submission.is_post {
            let bare = path.split('?').next().unwrap_or_default();
            return Request::get(format!("{bare}?{fields}"));
        }
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Origin", origin),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned())).into();
        Request { is_post: true, path, headers, body: fields }
    }
}

/// Where an answer to `current` leads, if it redirects.
pub fn redirect(current: &str, status: u16, location: Option<&str>) -> Option<String> {
    let location = location.filter(|_| matches!(status, 301..=303 | 307 | 308))?;
    Some(local_path(current, location))
}

/// Resolves `reference` of the page `current` to a path with its query. It drops an origin: a server may be reached by
/// another name than its own.
pub fn local_path(current: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    if let Some((_, after)) = reference.split_once("://").filter(|(scheme, _)| scheme.starts_with("http")) {
        let path = after.find(['/', '?']).map_or("", |at| &after[at..]);
        return if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    }
    if reference.starts_with('/') {
        return reference.to_owned();
    }
    let (path, _) = current.split_once('?').unwrap_or((current, ""));
    match reference {
        "" => current.to_owned(),
        query if query.starts_with('?') => format!("{path}{query}"),
        relative => format!("{}/{relative}", path.rsplit_once('/').map_or("", |(folder, _)| folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_browsers_do() {
        for (reference, path) in [
            ("", "/o/acme/login?next=%2F"),
            ("?a=b", "/o/acme/login?a=b"),
            ("signup", "/o/acme/signup"),
            ("/activate#top", "/activate"),
            ("http://127.0.0.1:7070/consent?id=1", "/consent?id=1"),
            ("https://id.example", "/"),
        ] {
            assert_eq!(local_path("/o/acme/login?next=%2F", reference), path, "{reference:?}");
        }
    }

    #[test]
    fn an_answer_redirects_by_status_and_location() {
        assert_eq!(redirect("/login", 303, Some("/account")).as_deref(), Some("/account"));
        assert_eq!(redirect("/login", 200, Some("/account")), None);
        assert_eq!(redirect("/login", 303, None), None);
    }

    #[test]
    fn a_form_is_sent_as_its_method_says() {
        let fields = vec![("q".to_owned(), "a b".to_owned())];
        let mut submission =
            Submission { action: "/search?old=1".to_owned(), is_post: false, fields, decides: false };
        assert_eq!(Request::submit("/", "http://a", &submission), Request::get("/search?q=a+b"));
        submission.is_post = true;
        let posted = Request::submit("/", "http://a", &submission);
        assert_eq!((posted.is_post, &*posted.path, &*posted.body), (true, "/search?old=1", "q=a+b"));
        assert!(posted.headers.contains(&("Origin", "http://a".to_owned())), "{posted:?}");
    }
}
