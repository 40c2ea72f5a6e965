//! The only door to locks, atomics and the swap cell: std, crossbeam and arc-swap, or loom under `--cfg loom`.
//!
//! `Arc` is std's in both worlds: loom has nothing to say about reference counts that are never read to decide.

pub(crate) use std::sync::Arc;

#[cfg(loom)]
pub(crate) use self::model::{AtomicBool, AtomicU32, AtomicU64, BoundedQueue, Cached, Mutex, Ordering, Swap, block_on};
#[cfg(not(loom))]
pub(crate) use self::real::{AtomicBool, AtomicU32, AtomicU64, BoundedQueue, Cached, Mutex, Ordering, Swap, block_on};

#[cfg(not(loom))]
mod real {
    use super::Arc;
    use arc_swap::ArcSwap;
    use std::fmt;
    use std::sync::{MutexGuard, PoisonError};
    use std::task::{Context, Poll, Wake, Waker};

    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

    /// A mutex without poisoning: what a panic may have left half done is guarded by the lane's own flag.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Runs a future on a thread that may block.
    pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let mut future = std::pin::pin!(future);
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            std::thread::park();
        }
    }

    /// A bounded multi-producer queue.
    pub(crate) struct BoundedQueue<T>(crossbeam::queue::ArrayQueue<T>);

    impl<T> BoundedQueue<T> {
        pub(crate) fn new(capacity: usize) -> Self {
            Self(crossbeam::queue::ArrayQueue::new(capacity))
        }

        /// Gives the value back when the queue is full.
        pub(crate) fn push(&self, value: T) -> Result<(), T> {
            self.0.push(value)
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.0.pop()
        }

        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }
    }

    /// The cell that holds the published root.
    pub(crate) struct Swap<T>(Arc<ArcSwap<T>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: Arc<T>) -> Self {
            Self(Arc::new(ArcSwap::new(value)))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.0.store(value);
        }

        /// Runs `f` on the present value without touching its reference count in the common case.
        pub(crate) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
            f(&self.0.load())
        }

        /// Another handle of the same cell.
        pub(crate) fn share(&self) -> Self {
            Self(self.0.clone())
        }

        /// A cache for one thread.
        pub(crate) fn cached(&self) -> Cached<T> {
            Cached(arc_swap::Cache::new(self.0.clone()))
        }
    }

    impl<T> fmt::Debug for Swap<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Swap")
        }
    }

    /// One thread's view of a [`Swap`]: revalidated by one relaxed load of the pointer.
    pub(crate) struct Cached<T>(arc_swap::Cache<Arc<ArcSwap<T>>, Arc<T>>);

    impl<T> Cached<T> {
        pub(crate) fn load(&mut self) -> &Arc<T> {
            self.0.load()
        }
    }
}

#[cfg(loom)]
mod model {
    //! Stand-ins for the models. Each is at most as strong as what it stands for:
    //! `Cached::load` decides by a relaxed load, as arc-swap's cache does.

    use super::Arc;
    use std::collections::VecDeque;

    pub(crate) use loom::future::block_on;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().expect("a model never poisons")
        }
    }

    pub(crate) struct BoundedQueue<T> {
        items: loom::sync::Mutex<VecDeque<T>>,
        capacity: usize,
    }

    impl<T> BoundedQueue<T> {
        pub(crate) fn new(capacity: usize) -> Self {
            Self { items: loom::sync::Mutex::new(VecDeque::new()), capacity }
        }

        pub(crate) fn push(&self, value: T) -> Result<(), T> {
            let mut items = self.items.lock().expect("a model never poisons");
            if items.len() >= self.capacity {
                return Err(value);
            }
            items.push_back(value);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().expect("a model never poisons").pop_front()
        }

        pub(crate) fn len(&self) -> usize {
            self.items.lock().expect("a model never poisons").len()
        }
    }

    struct Cell<T> {
        /// Stands for the pointer that arc-swap's cache compares.
        pointer: AtomicU64,
        value: loom::sync::Mutex<Arc<T>>,
    }

    pub(crate) struct Swap<T>(Arc<Cell<T>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: Arc<T>) -> Self {
            Self(Arc::new(Cell { pointer: AtomicU64::new(0), value: loom::sync::Mutex::new(value) }))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            *self.0.value.lock().expect("a model never poisons") = value;
            let next = self.0.pointer.load(Ordering::Relaxed) + 1;
            self.0.pointer.store(next, Ordering::Release);
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
            let value = self.0.value.lock().expect("a model never poisons").clone();
            f(&value)
        }

        pub(crate) fn share(&self) -> Self {
            Self(self.0.clone())
        }

        pub(crate) fn cached(&self) -> Cached<T> {
            let value = self.0.value.lock().expect("a model never poisons").clone();
            Cached { cell: self.0.clone(), pointer: 0, value }
        }
    }

    pub(crate) struct Cached<T> {
        cell: Arc<Cell<T>>,
        pointer: u64,
        value: Arc<T>,
    }

    impl<T> Cached<T> {
        pub(crate) fn load(&mut self) -> &Arc<T> {
            let pointer = self.cell.pointer.load(Ordering::Relaxed);
            if pointer != self.pointer {
                self.value = self.cell.value.lock().expect("a model never poisons").clone();
                self.pointer = pointer;
            }
            &self.value
        }
    }
}
