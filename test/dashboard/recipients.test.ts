import test from 'ava';
import {type Visitor, visitorOf} from '../helpers/dashboard.ts';
import type {Service} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';
import {service} from './service.ts';

const shopOf = ({workspaces}: Service) => workspaces.listed as NonNullable<(typeof workspaces)[string]>;

async function mailed(to: string): Promise<string> {
	const {live, from, templates} = shopOf(service());
	const {status, body} = await live.post<{id: string}>('/v1/messages', {
		from,
		to,
		templateId: templates.plain,
		data: {},
	});
	if (status !== 202) {
		throw new Error(`${to} was refused: ${JSON.stringify(body)}`);
	}
	return body.id;
}

async function uploaded(visitor: Visitor, csv: string): Promise<string> {
	const {text} = await visitor.get('/suppressions');
	const form = new FormData();
	form.set('_csrf', /name="_csrf" value="([^"]+)"/.exec(text)?.[1] ?? '');
	form.set('reason', '');
	form.set('file', new File([csv], 'list.csv', {type: 'text/csv'}));
	const {status, location} = await visitor.raw('/suppressions/import', {method: 'POST', body: form});
	if (status !== 303 || location === null) {
		throw new Error(`The upload answered ${status}`);
	}
	return location;
}

test('suppresses, finds and removes an address, visible to the API at each step', async t => {
	const visitor = await visitorOf(service(), 'operator', 'listed');
	const {live} = shopOf(service());
	t.is((await visitor.submit('/suppressions', {address: 'No-Address'})).status, 422);
	t.is((await visitor.submit('/suppressions', {address: 'Gone@dest.example'})).location, '/suppressions');
	const {body} = await live.get<{data: Array<{id: string; source: string; reason: string}>}>(
		'/v1/suppressions?recipient=gone@dest.example',
	);
	t.like(body.data[0], {source: 'dashboard', reason: 'manual'});
	const found = await visitor.get('/suppressions?q=GONE@dest.example');
	t.regex(found.text, /Gone@dest\.example[\s\S]*added manually[\s\S]*this dashboard/);
	t.regex((await visitor.get('/suppressions?q=nobody@dest.example')).text, /No matching address is suppressed/);
	await visitor.submit(`/suppressions/${body.data[0]?.id}/remove`);
	t.regex((await visitor.get('/suppressions?q=gone@dest.example')).text, /No matching address is suppressed/);
	t.is((await visitor.submit(`/suppressions/${body.data[0]?.id}/remove`)).status, 404);
	const {program} = service();
	const {id} = shopOf(service());
	const acts = await program.cli<Array<{action: string; actor: string}>>('audit', 'list', '--workspace', id);
	t.deepEqual(
		acts.filter(({action}) => /^suppression.(?:added|removed)$/.test(action)).map(({action}) => action),
		['suppression.removed', 'suppression.added'],
	);
	t.regex(
		acts.find(({action}) => action === 'suppression.removed')?.actor ?? '',
		/^user:operator\d+@staff\.example$/,
	);
});

test('imports a file with progress, names invalid lines, and exports everything', async t => {
	const visitor = await visitorOf(service(), 'operator', 'listed');
	const lines = Array.from({length: 3000}, (_, n) => `listed${n}@dest.example,hard_bounce`);
	const page = await uploaded(visitor, ['recipient,reason', ...lines, 'no address,hard_bounce', ''].join('\n'));
	const end = await waitFor('the end of the import', async () => {
		const {text} = await visitor.get(page);
		return text.includes('Import finished.') ? text : undefined;
	});
	t.regex(end, /Lines read<\/dt><dd>3,001/);
	t.regex(end, /Added<\/dt><dd>3,000/);
	t.regex(end, /3,002[\s\S]*the address/);
	const {text, headers} = await visitor.get('/suppressions/export');
	t.regex(headers.get('content-type') ?? '', /text\/csv/);
	t.true(lines.every(line => text.includes(line.split(',')[0] ?? '')));
	const stranger = await visitorOf(service(), 'viewer', 'listed');
	t.is((await stranger.get(page)).status, 403);
	const elsewhere = await uploaded(visitor, '\0\0');
	t.regex(
		await waitFor('the end of the import', async () => {
			const seen = await visitor.get(elsewhere);
			return seen.text.includes('progress') ? undefined : seen.text;
		}),
		/is not UTF-8 text/,
	);
});

test('creates and renames topics, and removes and purges them after their code is typed', async t => {
	const visitor = await visitorOf(service(), 'operator', 'listed');
	t.is((await visitor.submit('/topics', {code: 'two words', name: 'X'})).status, 422);
	await visitor.submit('/topics', {code: 'news', name: '<b>News</b>'});
	t.is((await visitor.submit('/topics', {code: 'news', name: 'Again'})).status, 422);
	await visitor.submit('/topics/news/update', {name: '<i>Monthly</i>'});
	t.is((await visitor.submit('/topics/news/update', {name: 'Monthly', priority: 'urgent'})).status, 422);
	t.is((await visitor.submit('/topics/news/update', {name: 'Monthly', description: 'a\0'})).status, 400);
	const all = {
		name: '<i>Monthly</i>',
		public: 'true',
		required: 'true',
		description: 'What <b>is</b> new',
		priority: 'low',
	};
	t.is((await visitor.submit('/topics/news/update', all)).location, '/topics');
	const {text} = await visitor.get('/topics');
	t.regex(text, /What &lt;b&gt;is&lt;\/b&gt; new/);
	t.regex(text, /value="low" selected/);
	t.is(text.match(/name="(?:public|required)" value="true" checked/g)?.length, 2);
	t.regex(text, /&lt;i&gt;Monthly/);
	t.notRegex(text, /<i>Monthly/);
	t.is((await visitor.submit('/topics/news/purge', {typed: 'nwes'})).status, 422);
	t.is((await visitor.submit('/topics/news/purge', {typed: 'news'})).location, '/topics');
	t.is((await visitor.submit('/topics/news/remove')).location, '/topics');
	t.is((await visitor.submit('/topics/news/remove')).status, 404);
});

test('finds a contact by address, changes its preferences, and erases it after typing the address', async t => {
	const visitor = await visitorOf(service(), 'operator', 'listed');
	const message = await mailed('ann@dest.example');
	const {text} = await visitor.get('/contacts?q=ANN@dest.example');
	const path = /\/contacts\/con_\w+/.exec(text)?.[0] ?? '';
	t.regex((await visitor.get(path)).text, new RegExp(message));
	t.is((await visitor.submit(path, {locale: 'not a tag', timezone: ''})).status, 422);
	t.is((await visitor.submit(path, {locale: 'de-at', timezone: 'Europe/Vienna'})).location, path);
	t.regex((await visitor.get(path)).text, /de-AT[\s\S]*Europe\/Vienna/);
	t.is((await visitor.submit(`${path}/erase`, {typed: 'ann'})).status, 422);
	t.is((await visitor.submit(`${path}/erase`, {typed: 'ann@dest.example'})).location, '/contacts');
	t.is((await visitor.get(path)).status, 404);
});
