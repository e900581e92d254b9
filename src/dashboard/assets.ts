import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import serveStatic from '@fastify/static';
import type {FastifyInstance} from 'fastify';

/** The folder where `scripts/assets.js` puts our files and those of htmx and uPlot, each with a compressed copy. */
const folder = fileURLToPath(new URL('../dashboard/assets/', import.meta.url));

const files = {
	style: 'dashboard.css',
	script: 'dashboard.js',
	htmx: 'htmx.js',
	plot: 'uplot.js',
	plotStyle: 'uplot.css',
	charts: 'charts.js',
} as const;

const names: ReadonlySet<string> = new Set(Object.values(files));

type Asset = keyof typeof files;

/** The URL of each file. It changes with the content, so that browsers may cache it indefinitely. */
export type Assets = Readonly<Record<Asset, string>>;

export function readAssets(): Assets {
	const urls = Object.entries(files).map(([name, file]) => {
		const hash = createHash('sha256')
			.update(readFileSync(`${folder}${file}`))
			.digest('hex')
			.slice(0, 12);
		return [name, `/assets/${file}?v=${hash}`];
	});
	return Object.fromEntries(urls);
}

/** Serves the files without a session: they contain no secrets, and the sign-in page needs them. */
export async function serveAssets(scope: FastifyInstance): Promise<void> {
	await scope.register(serveStatic, {
		root: folder,
		prefix: '/assets/',
		allowedPath: path => names.has(path.slice(1)),
		preCompressed: true,
		immutable: true,
		maxAge: '365d',
	});
}
