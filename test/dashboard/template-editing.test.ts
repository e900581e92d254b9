import test from 'ava';
import {type Seen, type Visitor, visitorOf} from '../helpers/dashboard.ts';
import {service} from './service.ts';

const shop = () => service().workspaces.shop as NonNullable<ReturnType<typeof service>['workspaces'][string]>;
const english = {
	begun: '',
	locale: '',
	subject: 'Hello {{ name }}',
	kind: 'html',
	source: '<p>{{ name }}</p>',
	text: '',
};
const first = {...english, sample: '{"name": "Ann"}'};

type Version = {
	version: number;
	variants: Array<{locale: string | null; subject: string; html?: string}>;
	sample: object;
};

let made = 0;

/** A template without a version, and its editor. */
async function newTemplate(): Promise<{editor: Visitor; id: string; path: string}> {
	const editor = await visitorOf(service(), 'operator', 'shop');
	made++;
	const id = `tpl_made_${made}`;
	await editor.submit('/templates', {name: `made ${made}`, id});
	return {editor, id, path: `/templates/${id}`};
}

const problemOf = ({text}: Seen) => /role="alert">([^<]*)/.exec(text)?.[1] ?? '';
const checksOf = ({text}: Seen) =>
	/id="checks"[^>]*>([\s\S]*?)<\/div>/.exec(text)?.[1]?.replaceAll(/<[^>]*>/g, ' ') ?? '';

async function version(id: string, number: number): Promise<Version> {
	return (await shop().live.get<Version>(`/v1/templates/${id}/versions/${number}`)).body;
}

test('adds, changes and removes languages, each as a new version', async t => {
	const {editor, id, path} = await newTemplate();
	t.regex((await editor.get(`${path}/edit`)).text, /Thank you for your order/, 'an example to begin with');
	t.is((await editor.submit(`${path}/edit`, first)).location, path);
	const german = {
		...first,
		begun: '1',
		added: '1',
		locale: 'DE-at',
		subject: 'Hallo',
		source: '<p>\r\n{{ name }}</p>',
	};
	t.regex(
		problemOf(await editor.submit(`${path}/edit`, {...german, locale: ''})),
		/Fix the problems that the checks found/,
	);
	t.is((await editor.submit(`${path}/edit`, german)).location, `${path}?locale=de-AT`);
	t.like(await version(id, 2), {
		variants: [{locale: null}, {locale: 'de-AT', subject: 'Hallo', html: '<p>\n{{ name }}</p>'}],
		sample: {name: 'Ann'},
	});
	t.regex(
		problemOf(await editor.submit(`${path}/edit`, {...german, begun: '2'})),
		/A variant for de-AT already exists/,
	);

	t.regex((await editor.get(`${path}/edit?locale=de-AT`)).text, /value="Hallo"/);
	const same = await editor.submit(`${path}/edit`, {...german, added: '', locale: 'de-AT', begun: '2'});
	t.is(same.location, path);
	t.regex((await editor.get(path)).text, /Nothing changed: version 2 is identical/);

	const gone = await editor.submit(`${path}/languages/delete`, {begun: '2', locale: ''});
	t.is(gone.location, path);
	const {variants} = await version(id, 3);
	t.deepEqual(
		variants.map(({locale}) => locale),
		['de-AT'],
	);
	const last = await editor.submit(`${path}/languages/delete`, {begun: '3', locale: 'de-AT'});
	t.regex(problemOf(last), /the only language/);
});

test('warns the second of two editors, keeps the text, and allows saving on top', async t => {
	const {editor, id, path} = await newTemplate();
	await editor.submit(`${path}/edit`, first);
	t.is((await editor.submit(`${path}/edit`, {...first, subject: 'One {{ name }}', begun: '1'})).status, 303);
	const late = await editor.submit(`${path}/edit`, {...first, subject: 'Two {{ name }}', begun: '1'});
	t.is(late.status, 409);
	t.regex(problemOf(late), /version 2 was saved while you edited version 1/);
	t.regex(late.text, /name="subject" value="Two {{ name }}"/);
	t.regex(late.text, /name="begun" value="2"/);
	t.regex(late.text, /compare\?from=1&to=2/);
	t.is((await editor.submit(`${path}/edit`, {...first, subject: 'Two {{ name }}', begun: '2'})).status, 303);
	t.like(await version(id, 3), {variants: [{subject: 'Two {{ name }}'}]});
	const removed = await editor.submit(`${path}/edit`, {...first, begun: ''});
	t.is(removed.status, 409, 'who began before there was a version, too');
});

test('never saves errors, and saves warnings once they were shown', async t => {
	const {editor, path} = await newTemplate();
	const check = async (fields: Record<string, string>) =>
		checksOf(await editor.submit(`${path}/check`, {...first, ...fields}));
	t.regex(await check({}), /found no problems/);
	t.regex(
		await check({source: '<p>\n{{ name | nosuch }}'}),
		/HTML, line 2, column 1: undefined filter: nosuch, in: {{ name \| nosuch }}/,
	);
	t.regex(await check({subject: '{% if %}'}), /Subject, line 1/);
	t.regex(await check({kind: 'mjml', source: '<mjml><mj-nosuch/></mjml>'}), /MJML, line 1/);
	t.regex(await check({source: ' '}), /Source: must not be empty/);
	t.regex(await check({sample: '[1]'}), /Sample: must be a JSON object/);
	t.regex(await check({sample: '{"a":'}), /Sample: is not JSON/);
	t.regex(await check({locale: 'no_tag'}), /Language: must be a tag/);
	t.regex(await check({sample: '{}'}), /Not in the sample: name\./);
	t.regex(
		await check({source: `<p>${'x'.repeat(110_000)}</p>`}),
		/The HTML is 107 KB\. Gmail clips messages at 102 KB/,
	);
	const links =
		'<a href="/orders">a</a><a href="#">b</a><a href="">c</a><a href="{{ name }}">d</a><a href="tel:1">e</a>';
	t.regex(
		await check({source: links, sample: '{"name": "javascript:x"}'}),
		/Invalid links: \/orders, #, \(empty\)\./,
	);
	t.regex(await check({subject: ' '}), /The subject is empty/);
	const text = await editor.submit(`${path}/draft`, {...first, source: '{% if'});
	t.regex(text.text, /^HTML, line 1/);
	t.regex(text.headers.get('content-type') ?? '', /^text\/plain/);

	const doubtful = {...first, source: '<p><script>{{ name }}{{ surname }}</script>'};
	const unseen = await editor.submit(`${path}/edit`, doubtful);
	t.is(unseen.status, 422);
	t.regex(problemOf(unseen), /Nothing was saved yet/);
	t.regex(unseen.text, /&lt;script&gt;/);
	const seen = /name="seen" form="editor" value="([^"]+)"/.exec(unseen.text)?.[1] ?? '';
	const other = await editor.submit(`${path}/edit`, {...doubtful, subject: '', seen});
	t.is(other.status, 422, 'another doubt was not seen');
	t.is((await editor.submit(`${path}/edit`, {...doubtful, seen})).location, path);
});

test('a test message passes every check of a send', async t => {
	const {editor, id, path} = await newTemplate();
	t.is((await editor.submit(`${path}/test`, {})).status, 404, 'there is nothing to send');
	await editor.submit(`${path}/edit`, first);
	t.regex((await editor.get(path)).text, new RegExp(`<option value="${shop().from}"`));
	const send = {from: shop().from, to: 'ann@dest.example'};
	const refused = async (fields: object, why: RegExp) => {
		const seen = await editor.submit(`${path}/test`, {...send, ...fields});
		t.is(seen.status, 422);
		t.regex(problemOf(seen), why);
		return seen;
	};
	t.regex((await refused({to: 'nobody'}, /Nothing was sent: The recipient must/)).text, /value="nobody"/);
	await refused({from: 'other@dest.example'}, /not an active, verified sender/);
	await shop().live.post('/v1/suppressions', {recipient: 'barred@dest.example'});
	await refused({to: 'barred@dest.example'}, /on the suppression list/);

	const {location} = await editor.submit(`${path}/test`, send);
	const acts = await service().program.cli<Array<{action: string; actor: string; target: string}>>('audit', 'list');
	const sent = acts.find(({target}) => target === location?.split('/').at(-1));
	t.is(sent?.action, 'message.sent');
	const message = await shop().live.get<{template_id: string; to: string}>(`/v1${location}`);
	t.is(message.status, 200);
	t.like(message.body, {to: 'ann@dest.example', template_id: id});
});

test('viewers can neither edit nor send', async t => {
	const {id, path, editor} = await newTemplate();
	await editor.submit(`${path}/edit`, first);
	const viewer = await visitorOf(service(), 'viewer', 'shop');
	t.is((await viewer.get(`${path}/edit`)).status, 403);
	t.notRegex((await viewer.get(`/templates/${id}`)).text, /Send a test|\/edit|Delete/);
});
