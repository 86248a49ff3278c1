//! What all lines have in common, whatever is at their end.

/// A limiter with a queue of waiters.
pub trait Line: Send + Sync + 'static {
    /// What a caller has when it is let in; it goes back when dropped, if it goes back at all.
    type Grant<'a>: Send
    where
        Self: 'a;

    /// Waits for `n` permits.
    fn acquire(&self, n: u32) -> impl Future<Output = Self::Grant<'_>> + Send;
}

/// A line where the next one is let in when the caller says so.
pub trait Stepped: Line {
    /// Makes room for one more; `grant` is the last one's.
    fn let_one_in(&self, grant: Self::Grant<'_>) {
        drop(grant);
    }
}

/// Lets the others run while it holds what it was granted.
pub async fn turn(line: &impl Line) {
    let grant = line.acquire(1).await;
    tokio::task::yield_now().await;
    drop(grant);
}
