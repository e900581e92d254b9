#!/usr/bin/env node
// CommonJS (package.json beside it): as an ES module this file would be read by libuv's pool, whose size is fixed by then.
// SQLite's calls run on that pool: with its usual four threads, four slow reads would hold up the writer.
process.env.UV_THREADPOOL_SIZE ??= '16';

require('./compile-cache.js').keepCompiled(process.env);
import('../dist/src/cli/main.js').then(({main}) => main(process.argv));
