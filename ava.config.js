import {createHash} from 'node:crypto';
import path from 'node:path';

// The order of the test files keeps both cores busy to the end: the longest first, then files that wait for programs
// beside files that compute, and only short ones last.
const longest = /\/(?:journeys|services|walk|acceptance-pacing|large-bodies|stores-\d+|commands-\d+)\.test\.js$/;
const waits = /\/test\/(?:flow|dashboard|resources\/certificates|conformance|deliver|queue)\//;

/** Where in the run a file starts, from 0 to 1: by a hash of its path, which mixes the folders. */
function startOf(file) {
	const [first = 0] = createHash('sha256').update(path.relative('dist/test', file)).digest();
	return (first / 256) * (longest.test(file) ? 0.2 : waits.test(file) ? 0.7 : 1);
}

export default {
	files: ['dist/test/**/*.test.js'],
	workerThreads: false,
	timeout: '5m',
	sortTestFiles: (a, b) => startOf(a) - startOf(b) || a.localeCompare(b),
};
