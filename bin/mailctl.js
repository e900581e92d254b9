#!/usr/bin/env node
import process from 'node:process';

// SQLite's calls run on libuv's pool; its size is fixed at the first use, so it is set before anything loads.
process.env.UV_THREADPOOL_SIZE ??= '16';

const {main} = await import('../dist/src/cli/main.js');
await main(process.argv);
