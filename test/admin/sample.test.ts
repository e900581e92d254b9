import test from 'ava';
import {readSample} from '../../src/admin/sample.ts';
import {readTemplates} from '../../src/admin/template-folder.ts';

test('the sample template is stored as its folder is compiled: node dist/src/admin/sample.js', async t => {
	const read = await readTemplates('config/sample-template');
	t.deepEqual(read.ok && read.change.templates, [await readSample()]);
});
