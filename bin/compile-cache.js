const {lstatSync, mkdirSync} = require('node:fs');
const module_ = require('node:module');
const path = require('node:path');

/**
 * Keeps what V8 compiles for the next start, where Node.js can (22.8). Who writes there runs code as us: so the folder is
 * never the usual one in /tmp, but one below our own cache folder that nobody else can write. Without such a folder nothing is
 * kept.
 */
exports.keepCompiled = ({CACHE_DIRECTORY, XDG_CACHE_HOME, HOME}) => {
	const caches = CACHE_DIRECTORY ?? XDG_CACHE_HOME ?? (HOME && path.join(HOME, '.cache'));
	if (!module_.enableCompileCache || !caches || !path.isAbsolute(caches)) {
		return;
	}
	const folder = path.join(caches, 'mailctl');
	try {
		mkdirSync(folder, {recursive: true, mode: 0o700});
		const {uid, mode} = lstatSync(folder);
		if (uid === process.getuid?.() && (mode & 0o777) === 0o700) {
			module_.enableCompileCache(folder);
		}
	} catch {
		// A home that cannot be written.
	}
};
