// A worker thread that cannot start.
throw new Error('broken at its start');
