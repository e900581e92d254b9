import path from 'node:path';

export default {
	files: ['dist/test/**/*.test.js'],
	workerThreads: false,
	timeout: '5m',
	// By their names, which mixes the folders: tests that wait for daemons run beside those that compute. Backwards, as the long
	// walks and webhooks should not come last.
	sortTestFiles: (a, b) => path.basename(b).localeCompare(path.basename(a)),
};
