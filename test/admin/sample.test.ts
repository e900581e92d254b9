import test from 'ava';
import {readSample} from '../../src/admin/sample.ts';
import {readTemplates} from '../../src/admin/template-folder.ts';

test('the sample template is stored as its folder is compiled: node dist/src/admin/sample.js', async t => {
	t.deepEqual(await readTemplates('config/sample-template'), {ok: true, templates: [await readSample()]});
});
