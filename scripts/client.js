// Builds `mailctl/client` in dist/client, one file and its types. src/client is written by hand; the API's methods and
// types come from its description. For that the API's sources are bundled instead of using dist/src, because tsc's
// output includes tests that import the client.
import {execFileSync} from 'node:child_process';
import {cpSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {pathToFileURL} from 'node:url';
import {build} from 'esbuild';
import {clientSource} from './client-source.js';

/** `folder` has the sources, which a test compares with the description served by the API. */
const [folder, made] = ['dist/client-source', 'dist/client'];
const common = {bundle: true, platform: 'node', target: 'node20.19', format: 'esm', logLevel: 'warning'};

/** Returns the document served at /openapi.json. No request reaches the routes, so they get no dependencies. */
async function describe() {
	const file = path.resolve(folder, 'api.js');
	const contents = `export {apiRoutes, createApi} from './src/api/server.ts';`;
	await build({...common, stdin: {contents, resolveDir: '.'}, outfile: file, packages: 'external'});
	const {apiRoutes, createApi} = await import(pathToFileURL(file));
	const needs = scope => Object.assign(() => undefined, {scope});
	const nothing = new Proxy(() => nothing, {get: (_target, name) => (name === 'needs' ? needs : nothing)});
	const api = createApi({newId: nothing, version: '', routes: apiRoutes(nothing), pages: null, trustProxy: []});
	await api.ready();
	const pages = await api.pages();
	return (await pages.inject('/openapi.json')).json();
}

/** Returns when the newest of these files was written. */
const newest = files => Math.max(...files.map(file => statSync(file, {throwIfNoEntry: false})?.mtimeMs ?? 0));

export async function makeClient() {
	const sources = ['src', 'scripts'].flatMap(root =>
		readdirSync(root, {recursive: true}).map(file => path.join(root, file)),
	);
	if (newest([`${made}/client.js`]) > newest([...sources, 'node_modules/.package-lock.json'])) {
		return;
	}
	rmSync(folder, {recursive: true, force: true});
	mkdirSync(folder, {recursive: true});
	cpSync('src/client', folder, {recursive: true});
	rmSync(made, {recursive: true, force: true});
	const source = path.join(folder, 'client.ts');
	writeFileSync(source, clientSource(await describe()));
	const options =
		'--ignoreConfig --declaration --emitDeclarationOnly --module nodenext --target es2023 --types node --strict --rewriteRelativeImportExtensions';
	const tsc = ['node_modules/typescript/bin/tsc', source, ...options.split(' '), '--outDir', made];
	execFileSync(process.execPath, tsc, {stdio: 'inherit'});
	await build({...common, entryPoints: [source], outdir: made});
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
	await makeClient();
}
