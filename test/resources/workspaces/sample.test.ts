import test from 'ava';
import {readTemplates} from '../../../src/resources/templates/template-folder.ts';
import {readSample} from '../../../src/resources/workspaces/sample.ts';

test('the stored sample template matches its compiled folder (node dist/src/resources/workspaces/sample.js writes it)', async t => {
	const read = await readTemplates('config/sample-template');
	t.deepEqual(read.ok && read.change.templates, [await readSample()]);
});
