//! How callers that wait get their answers.
//!
//! The answers of a call go to the first caller, which passes them on to the others. To wake a task of another thread takes a system call;
//! tasks of one thread wake each other without one. A caller that does not look at its answer soon delays no other caller for long: what it has
//! not passed on then, the thread of the fleet does.

use crate::Admitted;
use flowgate::Denied;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// What a caller is answered.
pub(crate) type Answer = Result<Admitted, Denied>;

pub(crate) type Sender = oneshot::Sender<Delivery>;
pub(crate) type Receiver = oneshot::Receiver<Delivery>;

/// A caller passes on no more answers than this.
const MOST_OTHERS: usize = 63;

/// An answer, and those of others. They are passed on when it is dropped, whether its caller has received it or has given up.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) answer: Answer,
    others: Option<Others>,
}

/// Answers that one caller passes on.
#[derive(Clone, Debug)]
pub(crate) struct Others(Arc<Mutex<Vec<(Sender, Answer)>>>);

impl Delivery {
    /// An answer for one caller alone.
    pub(crate) fn alone(answer: Answer) -> Self {
        Self {
            answer,
            others: None,
        }
    }

    /// Sends each its answer. A caller that has given up receives nothing.
    ///
    /// Returns those that were given to a caller to pass on.
    pub(crate) fn to_all(mut answers: impl Iterator<Item = (Sender, Answer)>) -> Vec<Others> {
        let mut passed = Vec::new();
        while let Some((first, answer)) = answers.next() {
            let others: Vec<_> = answers.by_ref().take(MOST_OTHERS).collect();
            let others = (!others.is_empty()).then(|| Others(Arc::new(Mutex::new(others))));
            passed.extend(others.clone());
            // If the first has given up, what comes back is dropped, and passes them on.
            let _ = first.send(Self { answer, others });
        }
        passed
    }
}

impl Others {
    /// Sends those that were not sent yet.
    pub(crate) fn pass_on(&self) {
        let others = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (other, answer) in others {
            let _ = other.send(Delivery::alone(answer));
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if let Some(others) = &self.others {
            others.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(count: usize) -> (Vec<Others>, Vec<Receiver>) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| oneshot::channel()).unzip();
        let answers = senders
            .into_iter()
            .map(|sender| (sender, Ok(Admitted::by_store())));
        (Delivery::to_all(answers), receivers)
    }

    fn is_answered(receiver: &mut Receiver) -> bool {
        receiver
            .try_recv()
            .is_ok_and(|delivery| delivery.answer.is_ok())
    }

    #[test]
    fn the_first_caller_passes_the_answers_on() {
        let (_, mut receivers) = answers(3);
        assert!(!is_answered(&mut receivers[1]));
        assert!(receivers.iter_mut().all(is_answered));
    }

    #[test]
    fn one_that_has_given_up_passes_them_on_whenever_it_did() {
        // After the answer.
        let (_, mut receivers) = answers(3);
        drop(receivers.remove(0));
        assert!(receivers.iter_mut().all(is_answered));

        // Before it.
        let (gone, mut receiver) = (oneshot::channel(), oneshot::channel());
        drop(gone.1);
        let answer = Ok(Admitted::by_store());
        Delivery::to_all([(gone.0, answer), (receiver.0, answer)].into_iter());
        assert!(is_answered(&mut receiver.1));
    }

    #[test]
    fn no_caller_passes_on_more_than_a_few() {
        let (others, mut receivers) = answers(2 * MOST_OTHERS + 2);
        assert_eq!(others.len(), 2);
        assert!(is_answered(&mut receivers[0]));
        let answered = receivers[1..]
            .iter_mut()
            .filter_map(|receiver| receiver.try_recv().ok());
        let answered = answered.collect::<Vec<_>>();
        assert_eq!(
            answered.len(),
            MOST_OTHERS + 1,
            "the second of the first callers too"
        );
        drop(answered);
        assert!(receivers.iter_mut().skip(MOST_OTHERS + 2).all(is_answered));
    }

    #[test]
    fn what_the_first_caller_does_not_look_at_is_passed_on_for_it() {
        let (others, mut receivers) = answers(3);
        others[0].pass_on();
        assert!(receivers[1..].iter_mut().all(is_answered));
        assert!(is_answered(&mut receivers[0]));
    }
}
