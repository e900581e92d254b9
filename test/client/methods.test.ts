import {readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {startApi} from '../helpers/api.ts';
import {newStore} from '../helpers/databases.ts';

test('the client has a method and the types for each route of the OpenAPI description', async t => {
	const {base} = await startApi(t, await newStore(t, 'sqlite'));
	const document = (await (await fetch(`${base}/openapi.json`)).json()) as {paths: Record<string, object>};
	const {clientSource} = await import(path.resolve('scripts/client-source.js'));
	const source = readFileSync('dist/client-source/client.ts', 'utf8');
	t.is(source, clientSource(document), '`npm run build` makes it');
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
