import {existsSync} from 'node:fs';
import test from 'ava';
import {ofPath, stepOfFile} from './where.ts';

test('the steps of a profile name files and folders of src', t => {
	const missing = Object.keys(ofPath).filter(name => !existsSync(`src/${name}`) && !existsSync(`src/${name}.ts`));
	t.deepEqual(missing, []);
});

test('a function counts for the step of its file, or of the nearest folder', t => {
	t.is(stepOfFile('/a/dist/src/compose/dkim.js'), 'sign');
	t.is(stepOfFile('file:///a/src/compose/render/limits.ts'), 'render');
	t.is(stepOfFile('/a/src/resources/webhooks/post.ts'), 'outcome');
	t.is(stepOfFile('/a/src/resources/topics/store.ts'), undefined);
	t.is(stepOfFile('/a/node_modules/x.js'), undefined);
});
