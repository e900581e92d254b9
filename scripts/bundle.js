// Creates dist/bundle, which bin starts: one file for the program and one for each thread, with the libraries that
// every start needs (docs/internals/decisions/0013-bundle.md).
import {execFileSync} from 'node:child_process';
import {createHash} from 'node:crypto';
import {
	appendFileSync,
	existsSync,
	readdirSync,
	readFileSync,
	renameSync,
	rmSync,
	statSync,
	writeFileSync,
} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {build} from 'esbuild';
import {ofPackages, writeAssets} from './assets.js';
import {beside} from './beside.js';
import {makeClient} from './client.js';
import {licencesOf, sbomOf} from './shipped.js';

// Optional drivers of knex and a settings reader of MJML, which are not installed.
const missing = [
	'better-sqlite3',
	'mariadb',
	'mysql',
	'mysql2',
	'oracledb',
	'pg-query-stream',
	'tedious',
	'typescript',
];
const [folder = 'dist/bundle'] = process.argv.slice(2);
// Whoever starts the program during the build gets the old bundle, never half of the new one.
const [outdir, former] = [`${folder}.new`, `${folder}.old`];

/** Returns when a file was written, or 0 if it does not exist. */
const timeOf = file => statSync(file, {throwIfNoEntry: false})?.mtimeMs ?? 0;

/** Returns the entry points of threads and processes, started by `entryPoint('folder/name')`. */
function startedFiles() {
	const files = readdirSync('src', {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));
	const started = /\bentryPoint\('([\w/-]+)'\)/g;
	const names = files.flatMap(file =>
		[...readFileSync(`src/${file}`, 'utf8').matchAll(started)].map(([, name]) => name),
	);
	return names.map(name => `src/${name}.ts`);
}

async function bundle(entryPoints, options) {
	const {metafile} = await build({
		entryPoints,
		outdir,
		// The same depth as in dist/src, so that relative paths still work.
		outbase: 'src',
		bundle: true,
		platform: 'node',
		target: 'node20.19',
		minifyWhitespace: true,
		external: [...beside, ...missing],
		sourcemap: true,
		sourcesContent: false,
		legalComments: 'none', // These are in LICENSES.txt.
		metafile: true,
		logLevel: 'warning',
		...options,
	});
	return Object.keys(metafile.inputs);
}

// Large libraries that few processes use get their own files. In the program's file they would cost memory everywhere.
const seldom = {'@simplewebauthn/server': 'libraries/webauthn', 'openid-client': 'libraries/openid'};
const leaveOut = {
	name: 'seldom',
	setup: ({onResolve}) => {
		onResolve({filter: /^[@\w]/}, ({path: name, kind}) =>
			kind === 'dynamic-import' && seldom[name] ? {path: `../${seldom[name]}.cjs`, external: true} : undefined,
		);
	},
};

// Needed by CommonJS libraries.
const threads = {
	format: 'esm',
	banner: {js: `import {createRequire} from 'node:module'; const require = createRequire(import.meta.url);`},
};
// A function that bin/program.js calls. Dynamically imported parts are compiled but not run until they are used.
const program = {
	format: 'cjs',
	supported: {'dynamic-import': false},
	define: {'import.meta.url': 'ownUrl'},
	banner: {js: '(function (module, require, ownUrl) {'},
	footer: {js: '})'},
	plugins: [leaveOut],
};
const libraries = {format: 'cjs', outExtension: {'.js': '.cjs'}, sourcemap: false};

// The tests run the output of tsc.
writeAssets('dist/src/dashboard/assets');
await makeClient();

// `npm start` builds each time. Skip this if neither tsc's output nor the libraries have changed since.
const madeOf = ['dist/.tsbuildinfo', 'node_modules/.package-lock.json', 'scripts/bundle.js'];
if (timeOf(`${folder}/cli/main.js`) > Math.max(...madeOf.map(timeOf))) {
	process.exit();
}

for (const rest of [outdir, former]) {
	rmSync(rest, {recursive: true, force: true});
}
const inputs = [
	...(await bundle(startedFiles(), threads)),
	...(await bundle(['src/cli/main.ts'], program)),
	...(await bundle(Object.fromEntries(Object.entries(seldom).map(([name, file]) => [file, name])), libraries)),
	...Object.values(ofPackages).flat(),
];
writeAssets(path.join(outdir, 'dashboard/assets'));
const main = path.join(outdir, 'cli/main.js');
// bin/program.js reads it as Latin-1, which V8 compiles faster. esbuild escapes everything except tagged templates and
// regular expressions.
const escaped = character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
writeFileSync(main, readFileSync(main, 'utf8').replaceAll(/[^\0-\x7f]/g, escaped));
const id = createHash('sha256').update(readFileSync(main)).digest('hex').slice(0, 16);
appendFileSync(main, `\n//${id}\n`);
writeFileSync(path.join(outdir, 'LICENSES.txt'), licencesOf(inputs));
writeFileSync(path.join(outdir, 'sbom.cdx.json'), JSON.stringify(sbomOf(inputs), null, '\t'));
if (existsSync(folder)) {
	renameSync(folder, former);
}
renameSync(outdir, folder);
rmSync(former, {recursive: true, force: true});
// The first run stores V8's compiled code.
const start = 'require("./bin/program.js").run(process.argv[1], [process.execPath, "mailctl", "--version"])';
execFileSync(process.execPath, ['-e', start, path.resolve(folder, 'cli/main.js')]);
