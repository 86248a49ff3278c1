//! The common part of the engines over a [ring of sums](crate::store::ring::sums): this one and the segmented window.

/// The methods of an [`Engine`](crate::limiter::engine::Engine) that follow from its sums.
///
/// They use the methods of [`Sums`](crate::store::ring::sums::Sums), `look_by` and `seen_at`, and the fields `limit` and `token`.
macro_rules! decides_by_sums {
    () => {
        /// The number of units per token.
        fn token(&self) -> u64 {
            self.token
        }

        fn limit(&self) -> u64 {
            self.limit.load(Ordering::Acquire)
        }

        #[inline(always)]
        fn decide(&self, now_ns: u64, amount: impl Amount) -> Verdict {
            self.take_by(None, now_ns, amount.units(|| self.token))
        }

        fn snapshot(&self, now_ns: u64) -> Snapshot {
            let (limit, remaining, empty_ns) = self.seen_at(now_ns);
            Snapshot {
                limit,
                remaining,
                reset_after: duration_from_nanos(empty_ns),
            }
        }

        /// Takes `n` units for a waiter in the queue, with `at_ns` as the time of the grant.
        fn grant(&self, at_ns: u64, n: u64) -> Verdict {
            if n == 0 {
                return Ok(());
            }
            self.take_by(Some(at_ns), at_ns, n)
        }

        /// The result of [`grant`](Engine::grant) if `ahead` units were taken first, each as early as possible.
        fn delay(&self, at_ns: u64, ahead: u128, n: u64) -> Verdict {
            self.look_by(Some(at_ns), at_ns, ahead, n)
        }

        /// The result of [`look`](Engine::look).
        fn look(&self, now_ns: u64, n: u64) -> Verdict {
            self.look_by(None, now_ns, 0, n)
        }

        fn capabilities(&self) -> Capabilities<'_> {
            Capabilities::default().refunds(self).requotas(self)
        }
    };
}

pub(crate) use decides_by_sums;
