//! The example does what it says.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../examples/axum_tenants.rs"]
mod example;

#[tokio::test]
async fn each_tenant_has_its_own_limit() {
    let lines = example::run().await.expect("it runs");
    let with = |tenant: &str, status: &str| {
        let is_it = |line: &&String| line.starts_with(tenant) && line.contains(status);
        lines.iter().filter(is_it).count()
    };
    assert_eq!(
        (with("acme", " 200 "), with("acme", " 429 ")),
        (3, 4),
        "{lines:#?}"
    );
    assert_eq!(
        (with("gold-corp", " 200 "), with("gold-corp", " 429 ")),
        (6, 1),
        "{lines:#?}"
    );
    assert_eq!(
        (with("nobody", " 400 "), with("nobody", " 200 ")),
        (1, 1),
        "{lines:#?}"
    );
    assert!(lines[2].contains("\"per tenant\";r=0;t=1200"), "{lines:#?}");
    assert!(lines[3].contains("retry-after 1200"), "{lines:#?}");
    assert_eq!(
        lines.last().map(String::as_str),
        Some("9 let through, 6 rejected, 1 exempt")
    );
}
