// Makes dist/bundle, which bin starts: one file for each thread and chunks for the program, with the libraries that a start
// needs (docs/decisions/0013-bundle.md).
import {existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {build} from 'esbuild';

// Pure JavaScript that reads no file beside itself. All others stay in node_modules, loaded when they are used.
const bundled = new Set([
	'@fastify/swagger',
	'ajv',
	'commander',
	'dns-packet',
	'dotenv',
	'fastify',
	'html-to-text',
	'ipaddr.js',
	'knex',
	'liquidjs',
	'lru-cache',
	'pino',
	'prom-client',
	'undici',
]);
// Drivers that knex can use and we have not.
const missing = ['better-sqlite3', 'mariadb', 'mysql', 'mysql2', 'oracledb', 'pg-query-stream', 'tedious'];
const {dependencies} = JSON.parse(readFileSync('package.json', 'utf8'));
const [folder = 'dist/bundle'] = process.argv.slice(2);
// Who starts the program meanwhile gets the old bundle, never half of the new one.
const [outdir, former] = [`${folder}.new`, `${folder}.old`];

/** When it was written; 0: it is not there. */
const timeOf = file => statSync(file, {throwIfNoEntry: false})?.mtimeMs ?? 0;

/** What is started by `new URL('../folder/name.js', import.meta.url)`: threads and processes of their own. */
function startedFiles() {
	const files = readdirSync('src', {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));
	const started = /new URL\('\.\.\/([\w-]+\/[\w-]+)\.js', import\.meta\.url\)/g;
	return files.flatMap(file => [...readFileSync(`src/${file}`, 'utf8').matchAll(started)].map(([, name]) => name));
}

async function bundle(entries, splitting) {
	const {metafile} = await build({
		entryPoints: entries.map(name => `src/${name}.ts`),
		outdir,
		outbase: 'src',
		// As deep as the files of dist/src: what they name beside themselves is found from here too.
		chunkNames: 'chunks/[name]-[hash]',
		splitting,
		bundle: true,
		platform: 'node',
		format: 'esm',
		target: 'node20.19',
		external: [...Object.keys(dependencies).filter(name => !bundled.has(name)), ...missing],
		// For libraries that are CommonJS.
		banner: {js: `import {createRequire} from 'node:module'; const require = createRequire(import.meta.url);`},
		sourcemap: true,
		sourcesContent: false,
		metafile: true,
		logLevel: 'warning',
	});
	return Object.keys(metafile.inputs);
}

/** The licences of what was bundled, which ask to go wherever it goes. */
function licencesOf(inputs) {
	const folders = inputs.flatMap(file => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
	return [...new Set(folders)].toSorted().map(folder => {
		const {name, version, license} = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
		const file = readdirSync(folder).find(name => /^licen[cs]e/i.test(name));
		return `${name} ${version} (${license})\n\n${file ? readFileSync(path.join(folder, file), 'utf8').trim() : ''}\n`;
	});
}

// `npm start` builds each time: where tsc wrote nothing and no library was installed since, there is nothing to do.
const madeOf = ['dist/.tsbuildinfo', 'node_modules/.package-lock.json', 'scripts/bundle.js'];
if (timeOf(`${folder}/cli/main.js`) > Math.max(...madeOf.map(timeOf))) {
	process.exit();
}

for (const rest of [outdir, former]) {
	rmSync(rest, {recursive: true, force: true});
}
const inputs = [...(await bundle(startedFiles(), false)), ...(await bundle(['cli/main'], true))];
writeFileSync(path.join(outdir, 'LICENSES.txt'), licencesOf(inputs).join(`\n${'-'.repeat(80)}\n\n`));
if (existsSync(folder)) {
	renameSync(folder, former);
}
renameSync(outdir, folder);
rmSync(former, {recursive: true, force: true});
