const {chmodSync, readFileSync, renameSync, rmSync, statSync, writeFileSync} = require('node:fs');
const {createRequire} = require('node:module');
const path = require('node:path');
const {pathToFileURL} = require('node:url');
const {Script} = require('node:vm');

/**
 * The program as a bundle, which starts sooner; where tsc has run since that was made, or it was never made, as tsc wrote it.
 * Of an installed package nothing but the bundle is there.
 */
exports.newest = dist => {
	const timeOf = file => statSync(`${dist}/${file}`, {throwIfNoEntry: false})?.mtimeMs ?? 0;
	return `${dist}/${timeOf('bundle/cli/main.js') > timeOf('.tsbuildinfo') ? 'bundle' : 'src'}/cli/main.js`;
};

/** Runs the file that `newest` named, until its command has ended. */
exports.run = async (file, argv) => {
	const {main, keepCode} = await exports.load(file);
	await main(argv);
	if (!argv.includes('serve')) {
		keepCode();
	}
};

/**
 * Loads the file that `newest` named. The bundle is a script of one function. The code that V8 made of it is kept beside it, as
 * Python keeps its .pyc files: Node.js would compile 4 MB at each start.
 */
exports.load = async file => {
	if (file.endsWith('src/cli/main.js')) {
		const {main} = await import(pathToFileURL(file));
		return {main, keepCode: () => undefined};
	}
	const source = readFileSync(file, 'latin1');
	// The file's last line names its content, of which V8 compares only the length. Code of another V8 or other flags V8 refuses.
	const kept = `${file.slice(0, -3)}-${source.slice(-17, -1)}-${process.versions.v8}.cache`;
	const cachedData = readKept(kept);
	const script = new Script(source, {filename: pathToFileURL(file).href, cachedData});
	const module = {exports: {}};
	script.runInThisContext()(module, createRequire(file), pathToFileURL(file).href);
	return {
		main: module.exports.main,
		keepCode() {
			if (!cachedData) {
				keep(kept, script.createCachedData());
			}
		},
	};
};

function readKept(file) {
	try {
		return readFileSync(file);
	} catch {
		return undefined;
	}
}

function keep(file, data) {
	const made = path.join(path.dirname(file), `${process.pid}.new`);
	try {
		// On the disk before it has its name: a file that a power loss cut short would be there for each start.
		writeFileSync(made, data, {flush: true});
		// As the bundle beside it, also where the umask says less.
		chmodSync(made, 0o644);
		renameSync(made, file);
	} catch {
		// A folder that we cannot write, or a full disk: the next start compiles again.
		rmSync(made, {force: true});
	}
}
