//! A thread's way to wait.

use crate::primitive::{AtomicU64, Ordering};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Poll, Waker};
use std::thread::{self, Thread};

/// Wakes one thread.
struct Parker {
    thread: Thread,
    /// 1: woken since it last looked.
    woken: AtomicU64,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(1, Ordering::Release);
        self.thread.unpark();
    }
}

std::thread_local! {
    static PARKER: (Arc<Parker>, Waker) = {
        let parker = Arc::new(Parker {
            thread: thread::current(),
            woken: AtomicU64::new(0),
        });
        (Arc::clone(&parker), Waker::from(parker))
    };
}

/// Polls until it is ready, and sleeps in between.
pub(crate) fn block_on<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    PARKER.with(|(parker, waker)| {
        loop {
            if let Poll::Ready(answer) = poll(waker) {
                return answer;
            }
            while parker.woken.swap(0, Ordering::Acquire) == 0 {
                thread::park();
            }
        }
    })
}
