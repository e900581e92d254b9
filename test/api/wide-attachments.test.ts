import test from 'ava';
import {changeWorkspace} from '../../src/resources/workspaces/rules.ts';
import {listAttachments} from '../../src/store/messages.ts';
import {codeOf, idOf, startApi, type TestApi} from '../helpers/api.ts';
import {sqliteTest} from '../helpers/databases.ts';
import {testTools} from '../helpers/tools.ts';

const file = (bytes: number, fill = 'a') => ({
	filename: 'a.bin',
	contentType: 'application/octet-stream',
	content: Buffer.alloc(bytes, fill).toString('base64'),
});
const mebibyte = 1024 * 1024;
const violationsOf = (answer: {body: unknown}) =>
	(answer.body as {error: {violations: Array<{field: string; message: string}>}}).error.violations;

async function allow(api: TestApi, max_attachments: number | null, max_attachment_bytes: number | null): Promise<void> {
	const input = {max_attachments, max_attachment_bytes};
	await api.store.writer.transaction(trx => changeWorkspace(trx, testTools(), api.workspace.id, input));
	api.clear();
}

sqliteTest(test, 'allows more and larger attachments only in workspaces configured for them', async (t, store) => {
	const api = await startApi(t, store);
	const four = Array.from({length: 4}, () => file(1));
	t.deepEqual(violationsOf(await api.send({attachments: four})), [
		{field: 'attachments', message: 'must have at most 3 items'},
	]);
	const usual = 'must be base64 (with padding, without line breaks) of at most 1,048,576 bytes';
	const [fault] = violationsOf(await api.send({attachments: [file(mebibyte + 1)]}));
	t.deepEqual(fault, {field: 'attachments[0].content', message: usual});

	await allow(api, 4, 5 * mebibyte);
	const sent = await api.send({attachments: [...four.slice(1), file(5 * mebibyte)]});
	t.is(sent.status, 202, sent.text);
	const stored = await listAttachments(store.reader, idOf(sent));
	t.deepEqual(
		stored.map(({content}) => content.length),
		[1, 1, 1, 5 * mebibyte],
	);
	const batch = await api.post('/v1/messages/batch', {
		messages: [
			{from: api.workspace.sender, to: 'a@example.org', templateId: api.workspace.templateId, attachments: four},
		],
	});
	t.like(batch.body, {data: [{status: 'accepted'}]}, batch.text);

	t.deepEqual(violationsOf(await api.send({attachments: [...four, file(1)]})), [
		{field: 'attachments', message: 'must have at most 4 items'},
	]);
	t.deepEqual(violationsOf(await api.send({attachments: Array.from({length: 21}, () => file(1))})), [
		{field: 'attachments', message: 'must have at most 20 items'},
	]);
	t.deepEqual(
		violationsOf(await api.send({attachments: [file(1), file(5 * mebibyte + 1), {...file(1), content: '%'}]})),
		[
			{field: 'attachments[2].content', message: usual.replace('1,048,576', '26,214,400')},
			{field: 'attachments[1].content', message: usual.replace('1,048,576', '5,242,880')},
		],
	);
	t.is(codeOf(await api.send({attachments: [...four, file(25 * mebibyte)]})), 'payload_too_large');

	await allow(api, null, null);
	t.is((await api.send({attachments: four})).status, 422);
	t.is(codeOf(await api.send({attachments: [file(5 * mebibyte)]})), 'payload_too_large');
});
