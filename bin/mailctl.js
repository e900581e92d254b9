#!/bin/sh
':' //; exec env MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=1048576 MALLOC_TRIM_THRESHOLD_=4194304 node -- "$0" "$@"
// For a shell the line above starts Node.js, for Node.js it is a text. Without `--` Node.js takes --env-file for an option of its
// own: it reads a FIFO for ever, and says in its own words that there is no such file. Not every `env` knows -S.

// CommonJS (package.json beside it): as an ES module this file would be read by libuv's pool, whose size is fixed by then.
// SQLite's calls run on that pool: with its usual four threads, four slow reads would hold up the daemon's writer. The store reads
// over four connections, so eight threads always leave some for the writer, files and DNS. A command beside the daemon does one
// thing after the other and keeps the usual four.
if (process.argv.includes('serve')) {
	process.env.UV_THREADPOOL_SIZE ??= '8';
}

const {existsSync} = require('node:fs');
const {newest, run} = require('./program.js');

const program = newest(`${__dirname}/../dist`);
if (existsSync(program)) {
	void run(program, process.argv);
} else {
	console.error(
		'mailctl: the program is not built yet, run npm ci in its folder or install the file created by npm pack',
	);
	process.exitCode = 69;
}
