// Lists the third-party code in the package, for dist/bundle: LICENSES.txt for the bundle, and sbom.cdx.json for the
// bundle and the libraries beside it. `npm sbom` would list MJML's whole tree, but no libraries that development
// packages need too.
import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import {foldersBeside} from './beside.js';

const read = file => JSON.parse(readFileSync(file, 'utf8'));
const line = `\n${'-'.repeat(80)}\n\n`;

/** Returns the folders of the libraries that these files belong to. */
function foldersOf(files) {
	const folders = files.flatMap(file => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
	return [...new Set(folders)].toSorted();
}

/** Returns the licenses of the bundled libraries, which require their distribution with the bundle. */
export function licencesOf(files) {
	const texts = foldersOf(files).map(folder => {
		const {name, version, license} = read(path.join(folder, 'package.json'));
		const file = readdirSync(folder).find(name => /^licen[cs]e/i.test(name));
		return `${name} ${version} (${license})\n\n${file ? readFileSync(path.join(folder, file), 'utf8').trim() : ''}\n`;
	});
	return texts.join(line);
}

/**
 * Returns a software bill of materials (CycloneDX 1.5) of the program and each library, with the version and checksum
 * of the file that npm installed.
 */
export function sbomOf(files) {
	const {packages} = read('package-lock.json');
	const component = folder => {
		const {name, version, license} = read(path.join(folder, 'package.json'));
		const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
		return {'bom-ref': purl, name, version, purl, licenses: [{expression: license.replace(/ \(http.*/, '')}]};
	};
	const libraries = [...foldersOf(files), ...foldersBeside()].map(folder => {
		const [algorithm, checksum] = packages[folder].integrity.split('-');
		const content = Buffer.from(checksum, 'base64').toString('hex');
		return {type: 'library', ...component(folder), hashes: [{alg: algorithm.replace('sha', 'SHA-'), content}]};
	});
	const each = new Map(libraries.map(library => [library.purl, library]));
	return {
		bomFormat: 'CycloneDX',
		specVersion: '1.5',
		version: 1,
		metadata: {component: {type: 'application', ...component('')}},
		components: [...each.values()].toSorted((one, other) => (one.purl < other.purl ? -1 : 1)),
	};
}
