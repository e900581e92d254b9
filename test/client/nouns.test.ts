import {readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import test from 'ava';
import {startApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';
import type {ApiDocument} from './document.ts';
import {clientSource} from './source.ts';

// UPDATE_GOLDEN=1 writes the file; `npm run docs` does so.
test('the client has a method for each route that the description of the API has, and its types', async t => {
	const {base} = await startApi(t, await newStore(t, 'sqlite'));
	const document = (await (await fetch(`${base}/openapi.json`)).json()) as ApiDocument;
	const source = clientSource(document);
	if (process.env.UPDATE_GOLDEN) {
		writeFileSync('src/client/nouns.ts', source);
	}
	t.is(readFileSync('src/client/nouns.ts', 'utf8'), source, '`npm run docs` makes it');
	const routes = Object.entries(document.paths)
		.filter(([path]) => path.startsWith('/v1/'))
		.flatMap(([, operations]) => Object.keys(operations));
	t.is([...source.matchAll(/^\t\t\w+: \(/gm)].length, routes.length);
	for (const [noun, methods] of source
		.split('\treadonly ')
		.slice(1)
		.map(text => [text, [...text.matchAll(/^\t\t(\w+): \(/gm)]] as const)) {
		const names = methods.map(([, name]) => name);
		t.is(new Set(names).size, names.length, noun.slice(0, 40));
	}
});
