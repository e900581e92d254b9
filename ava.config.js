export default {
	files: ['dist/test/**/*.test.js'],
	workerThreads: false,
	timeout: '5m',
};
