import test from 'ava';
import {readSample} from '../../src/admin/sample.ts';
import {readTemplates} from '../../src/admin/template-folder.ts';

test('the stored sample template matches its compiled folder (node dist/src/admin/sample.js writes it)', async t => {
	const read = await readTemplates('config/sample-template');
	t.deepEqual(read.ok && read.change.templates, [await readSample()]);
});
