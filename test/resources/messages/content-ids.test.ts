import test from 'ava';
import {listAttachments} from '../../../src/store/messages.ts';
import {idOf, startApi} from '../../helpers/api.ts';
import {sqliteTest} from '../../helpers/databases.ts';

const file = {filename: 'logo.png', contentType: 'image/png', content: 'bG9nbw=='};

sqliteTest(test, 'stores a contentId and reuses it in a resend', async (t, store) => {
	const api = await startApi(t, store);
	const longest = `a.B_9-@+${'x'.repeat(120)}`;
	const sent = await api.send({attachments: [{...file, contentId: 'logo'}, {...file, contentId: longest}, file]});
	t.is(sent.status, 202, sent.text);
	const again = await api.post(`/v1/messages/${idOf(sent)}/resend`, '{}');
	for (const id of [idOf(sent), idOf(again)]) {
		const stored = await listAttachments(store.reader, id);
		t.deepEqual(
			stored.map(({contentId}) => contentId),
			['logo', longest, null],
		);
		const {attachments} = (await api.get(`/v1/messages/${id}`)).body as {attachments: unknown[]};
		t.deepEqual(attachments[0], {filename: 'logo.png', content_type: 'image/png'});
	}
});

sqliteTest(test, 'rejects an invalid or duplicate contentId and names its field', async (t, store) => {
	const api = await startApi(t, store);
	const ids = ['', 'a b', '<a>', 'ä', 'a/b', 'a\r\nBcc: eve', 'x'.repeat(129), 1];
	for (const contentId of ids) {
		const answer = await api.send({attachments: [file, {...file, contentId}]});
		t.like(answer.body, {error: {violations: [{field: 'attachments[1].contentId'}]}}, answer.text);
	}
	const twice = ['a', 'b', 'a'].map(contentId => ({...file, contentId}));
	t.deepEqual(((await api.send({attachments: twice})).body as {error: {violations: object[]}}).error.violations, [
		{field: 'attachments[2].contentId', message: 'must be unique within the message'},
	]);
});

sqliteTest(test, 'a preview warns about images without a matching attachment', async (t, store) => {
	const api = await startApi(t, store);
	const made = await api.post('/v1/templates', {name: 'pictured'});
	const path = `/v1/templates/${idOf(made)}`;
	const html = '<img src="cid:logo"> <img src="cid:{{ name }}"> <img src="CID:a%40b">';
	const saved = await api.post(`${path}/versions`, {variants: [{subject: 'x', html}]});
	t.is(saved.status, 201, saved.text);
	const preview = async (body: object) => (await api.post(`${path}/preview`, body)).body as {warnings?: string[]};
	t.deepEqual((await preview({data: {name: 'photo'}, contentIds: ['photo']})).warnings, [
		'cid:logo needs an attachment with the contentId logo',
		'cid:a@b needs an attachment with the contentId a@b',
	]);
	t.false('warnings' in (await preview({data: {name: 'photo'}, contentIds: ['photo', 'logo', 'a@b']})));
	t.like(await preview({contentIds: ['a b']}), {error: {violations: [{field: 'contentIds[0]'}]}});
});
