import test from 'ava';
import {type List, timeShape} from '../helpers/api-client.ts';
import {conforms} from '../helpers/conforms.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {
	accepted,
	addTopic,
	type Contact,
	codeOf,
	fieldsOf,
	idShape,
	oneClick,
	rawMail,
	readMessage,
	suppress,
	timeline,
	unknownId,
	unsubscribeUrl,
	untilStatus,
	walk,
} from './resources.ts';

const service = serviceOf(test, {workspaces: {main: [], other: []}});

async function contactOf({live}: Workspace, email: string): Promise<Contact | undefined> {
	return (await live.get<List<Contact>>(`/v1/contacts?email=${encodeURIComponent(email)}`)).body.data[0];
}

test('a contact is made by the first send and shows what is known of it', async t => {
	conforms(t, 'other.contacts', 'contact.locale-and-timezone', 'locale.learned');
	const {main, other} = service().workspaces as {main: Workspace; other: Workspace};
	const email = 'Known@Contacts.example';
	await addTopic(main, 'contact-news');
	const id = await accepted(main, {
		to: email,
		locale: 'de-at',
		timezone: 'Europe/Vienna',
		unsubscribeGroup: 'contact-news',
	});
	const contact = (await contactOf(main, 'known@contacts.example')) as Contact;
	t.regex(contact.id, idShape('con'));
	t.like(contact, {locale: 'de-AT', timezone: 'Europe/Vienna', suppressed: false});
	t.is(contact.email.toLowerCase(), email.toLowerCase());
	t.deepEqual([...contact.topics], []);
	t.regex(contact.created_at, timeShape);
	t.regex(contact.updated_at, timeShape);
	t.deepEqual((await main.live.get<Contact>(`/v1/contacts/${contact.id}`)).body, contact);
	t.is(await contactOf(other, email), undefined);

	await oneClick(unsubscribeUrl(await rawMail(service(), main, id)));
	await suppress(main, email);
	t.like((await main.live.get<Contact>(`/v1/contacts/${contact.id}`)).body, {
		suppressed: true,
		topics: ['contact-news'],
	});
	await accepted(main, {to: 'KNOWN@other.contacts.example', locale: null});
	t.like(await contactOf(main, 'known@other.contacts.example'), {locale: null, timezone: null});
});

test('what a contact prefers can be set and taken away', async t => {
	conforms(t, 'contact.locale-and-timezone', 'other.contacts');
	const {main} = service().workspaces as {main: Workspace};
	await accepted(main, {to: 'patched@contacts.example', locale: 'fr'});
	const {id} = (await contactOf(main, 'patched@contacts.example')) as Contact;
	const path = `/v1/contacts/${id}`;
	const patched = await main.live.patch<Contact>(path, {timezone: 'Asia/Tokyo'});
	t.is(patched.status, 200);
	t.like(patched.body, {id, locale: 'fr', timezone: 'Asia/Tokyo'});
	t.like((await main.live.patch<Contact>(path, {locale: 'pt-br'})).body, {locale: 'pt-BR', timezone: 'Asia/Tokyo'});
	for (const [body, field] of [
		[{locale: 'no_locale!'}, 'locale'],
		[{timezone: 'Mars/Base'}, 'timezone'],
		[{email: 'new@contacts.example'}, 'email'],
	] as const) {
		t.deepEqual(fieldsOf(await main.live.patch(path, body)), [field]);
	}
});

test('what test keys send and what is refused makes no contact', async t => {
	conforms(t, 'other.contacts');
	const {main} = service().workspaces as {main: Workspace};
	await accepted(main, {to: 'tested@contacts.example', locale: 'de'}, main.test);
	t.is(await contactOf(main, 'tested@contacts.example'), undefined);
	await main.live.post('/v1/messages', {
		from: 'stranger@main.example',
		to: 'refused@contacts.example',
		templateId: 'x',
	});
	t.is(await contactOf(main, 'refused@contacts.example'), undefined);
});

test('erasing a person leaves nothing of them but the record that they want no mail', async t => {
	conforms(t, 'other.contacts');
	const {main} = service().workspaces as {main: Workspace};
	const email = 'erase-me@contacts.example';
	const id = await accepted(main, {to: email, data: {name: 'Erasmus'}, metadata: {secret: 'of-erasmus'}});
	const copied = await accepted(main, {to: 'stays@contacts.example', cc: [email]});
	await untilStatus(main.live, id, 'delivered');
	await untilStatus(main.live, copied, 'delivered');
	await suppress(main, email);
	const {id: contactId} = (await contactOf(main, email)) as Contact;
	t.is((await main.live.remove(`/v1/contacts/${contactId}`)).status, 204);
	t.is(codeOf(await main.live.get(`/v1/contacts/${contactId}`)), 'not_found');
	t.is(await contactOf(main, email), undefined);
	const erased = await readMessage(main.live, id);
	t.like(erased, {to: 'erased@erased.invalid', subject: null});
	t.deepEqual([erased.data, erased.metadata], [{}, {}]);
	t.deepEqual([...(await readMessage(main.live, copied)).cc], ['erased@erased.invalid']);
	for (const each of [id, copied]) {
		const shown = JSON.stringify([await readMessage(main.live, each), await timeline(main.live, each)]);
		t.notRegex(shown, /erase-me|Erasmus|of-erasmus/);
	}
	const entries = await walk<{recipient: string}>(main.live, `/v1/suppressions?recipient=${email}`);
	t.is(entries.length, 1);
});

test('unknown contacts are not found; the list filters by email', async t => {
	conforms(t, 'other.contacts', 'cursor.lists', 'errors.404.not_found');
	const {main} = service().workspaces as {main: Workspace};
	for (const id of [unknownId('con'), 'con_1', unknownId('msg')]) {
		t.is(codeOf(await main.live.get(`/v1/contacts/${id}`)), 'not_found');
		t.is(codeOf(await main.live.patch(`/v1/contacts/${id}`, {locale: 'de'})), 'not_found');
		t.is(codeOf(await main.live.remove(`/v1/contacts/${id}`)), 'not_found');
	}
	t.deepEqual((await main.live.get<List<Contact>>('/v1/contacts?email=nobody@contacts.example')).body.data, []);
	t.deepEqual(fieldsOf(await main.live.get('/v1/contacts?mail=nobody@contacts.example')), ['mail']);
});
