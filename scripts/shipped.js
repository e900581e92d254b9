// What of others the package holds, for dist/bundle: LICENSES.txt of what is in the bundle, and sbom.cdx.json of that
// and of what is installed beside it. `npm sbom` lists MJML's whole tree, and none of the libraries that development
// packages need too.
import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import {foldersBeside} from './beside.js';

const read = file => JSON.parse(readFileSync(file, 'utf8'));
const line = `\n${'-'.repeat(80)}\n\n`;

/** The folders of the libraries that these files are of. */
function foldersOf(files) {
	const folders = files.flatMap(file => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []);
	return [...new Set(folders)].toSorted();
}

/** The licences of what was bundled, which ask to go wherever it goes. */
export function licencesOf(files) {
	const texts = foldersOf(files).map(folder => {
		const {name, version, license} = read(path.join(folder, 'package.json'));
		const file = readdirSync(folder).find(name => /^licen[cs]e/i.test(name));
		return `${name} ${version} (${license})\n\n${file ? readFileSync(path.join(folder, file), 'utf8').trim() : ''}\n`;
	});
	return texts.join(line);
}

/**
 * A software bill of materials, CycloneDX 1.5: the program, and each library in the version and of the file that npm
 * installed.
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
