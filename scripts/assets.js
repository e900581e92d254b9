// Writes the dashboard's assets to where the program finds them: beside the bundle, and beside the output of tsc for
// tests.
import {mkdirSync, readdirSync, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {brotliCompressSync, constants, gzipSync} from 'node:zlib';

const own = 'src/dashboard/assets';
/** The assets that come from packages, by the name under which they are served. */
export const ofPackages = {
	// In one file, because htmx starts on its own once loaded, and needs its extension by then.
	'htmx.js': ['node_modules/htmx.org/dist/htmx.min.js', 'node_modules/htmx.org/dist/ext/hx-sse.min.js'],
	'uplot.js': ['node_modules/uplot/dist/uPlot.iife.min.js'],
	'uplot.css': ['node_modules/uplot/dist/uPlot.min.css'],
};

/** Writes the assets to a folder, each with its compressed forms. */
export function writeAssets(folder) {
	mkdirSync(folder, {recursive: true});
	const ours = Object.fromEntries(readdirSync(own).map(name => [name, [path.join(own, name)]]));
	for (const [name, sources] of Object.entries({...ours, ...ofPackages})) {
		const content = sources.map(readPlain).join('\n');
		const file = path.join(folder, name);
		writeFileSync(file, content);
		writeFileSync(`${file}.br`, brotliCompressSync(content, {params: {[constants.BROTLI_PARAM_QUALITY]: 9}}));
		writeFileSync(`${file}.gz`, gzipSync(content));
	}
}

/** Removes references to source maps, because the maps are not served. */
function readPlain(source) {
	return readFileSync(source, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
}
