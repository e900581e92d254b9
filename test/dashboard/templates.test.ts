import test from 'ava';
import fc from 'fast-check';
import {diffLines, fold} from '../../src/kit/diff.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {service} from './service.ts';

const shop = () => service().workspaces.designed as NonNullable<ReturnType<typeof service>['workspaces'][string]>;

async function saved(version: number, html: string): Promise<string> {
	const {live, templates} = shop();
	const path = `/v1/templates/${templates.receipt}`;
	const {body} = await live.post<{version: number}>(`${path}/versions`, {variants: [{subject: 'Again', html}]});
	if (body.version !== version) {
		throw new Error(`It is version ${body.version}.`);
	}
	return `${templates.receipt}`;
}

test.serial('lists templates and previews one', async t => {
	const viewer = await visitorOf(service(), 'viewer', 'designed');
	const {receipt} = shop().templates;
	const list = await viewer.get('/templates');
	t.regex(list.text, new RegExp(`href="/templates/${receipt}" data-row`));
	t.notRegex(list.text, /New template/, 'viewers make none');

	const one = await viewer.get(`/templates/${receipt}`);
	t.regex(one.text, /&lt;b&gt;Receipt&lt;\/b&gt;/);
	t.notRegex(one.text, /Roll back|Delete|alert\(1\)/);
	t.regex(one.text, /aria-label="Language"/);
	const source = await viewer.get(`/templates/${receipt}?show=source`);
	t.regex(source.text, /&lt;script&gt;alert/);

	const frame = await viewer.get(`/templates/${receipt}/frame`);
	t.regex(frame.text, /Total 19\.90/);
	const policy = frame.headers.get('content-security-policy') ?? '';
	t.regex(policy, /^sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;/);
	t.notRegex(frame.text, /<link/i, 'it would be connected to');
	const german = await viewer.get(`/templates/${receipt}/frame?locale=de&part=text`);
	t.is(german.text, 'Summe 19.90\n');
	t.regex(german.headers.get('content-type') ?? '', /^text\/plain/);
	const images = await viewer.get(`/templates/${receipt}/frame?images=1`);
	t.regex(images.headers.get('content-security-policy') ?? '', /img-src data: https: http:;/);
});

test.serial('compares versions and rolls back to one', async t => {
	const id = await saved(2, '<p>Sum {{ total }}</p>\n<p>Bye</p>');
	const operator = await visitorOf(service(), 'operator', 'designed');
	const {text} = await operator.get(`/templates/${id}/compare?from=1&to=2`);
	t.regex(text, /<del>- Beleg {{ number }}<\/del>/, 'a language that is gone');
	t.regex(text, /<ins>\+ &lt;p&gt;Sum {{ total }}&lt;\/p&gt;<\/ins>/);
	t.is((await operator.get(`/templates/${id}/compare?from=1&to=9`)).status, 404);
	t.regex((await operator.get(`/templates/${id}/compare?from=2&to=2`)).text, /are the same/);
	t.regex(
		(await operator.get(`/templates/${id}?version=1`)).text,
		/This is version 1\. Messages are sent with version 2/,
	);

	const answer = await operator.submit(`/templates/${id}/rollback`, {version: '1'});
	t.is(answer.location, `/templates/${id}`);
	const {body} = await shop().live.get<{latest_version: number}>(`/v1/templates/${id}`);
	t.is(body.latest_version, 3);
	t.regex((await operator.get(`/templates/${id}`)).text, /Saved version 3, equal to version 1/);
	t.is((await operator.submit(`/templates/${id}/rollback`, {version: '9'})).status, 404);
});

test.serial('creates a template, and deletes it after its name is typed', async t => {
	const operator = await visitorOf(service(), 'operator', 'designed');
	const refused = async (fields: Record<string, string>, why: RegExp) => {
		const seen = await operator.submit('/templates', fields);
		t.is(seen.status, 422);
		t.regex(seen.text, why);
	};
	await refused({name: ' ', id: 'tpl_welcome'}, /value="tpl_welcome"/);
	await refused({name: 'welcome', id: 'welcome'}, /The id must be tpl_/);
	await refused({name: 'receipt'}, /The template receipt already exists/);
	const made = await operator.submit('/templates', {name: 'wel<i>come', id: 'tpl_welcome'});
	t.is(made.location, '/templates/tpl_welcome/edit');
	t.regex((await operator.get('/templates/tpl_welcome')).text, /No version has been saved yet/);
	t.is((await operator.get('/templates/tpl_welcome/frame')).status, 404);

	const kept = await operator.submit('/templates/tpl_welcome/delete', {typed: 'welcome'});
	t.is(kept.status, 422);
	const gone = await operator.submit('/templates/tpl_welcome/delete', {typed: 'wel<i>come'});
	t.is(gone.location, '/templates');
	t.is((await operator.get('/templates/tpl_welcome')).status, 404);
	t.deepEqual(await acts(), ['template.created', 'template.deleted', 'template.rolled_back']);
});

/** The audit entries of dashboard users. */
async function acts(): Promise<string[]> {
	const rows = await service().program.cli<Array<{actor: string; action: string}>>(
		'audit',
		'list',
		'--workspace',
		shop().id,
	);
	const ours = rows.filter(({actor, action}) => actor.startsWith('user:') && action.startsWith('template.'));
	return ours.map(({action}) => action).toSorted();
}

test('shows the start of large diffs, and skips languages too long to compare', async t => {
	const {live} = shop();
	const {body} = await live.post<{id: string}>('/v1/templates', {name: 'large'});
	for (const mark of ['old', 'new']) {
		const [many, wide] = [`${mark}\n`.repeat(2001), `${mark.repeat(25)}\n`.repeat(1000)];
		const html = {de: many, fr: wide, it: wide} as const;
		const variants = Object.entries(html).map(([locale, text]) => ({
			locale,
			subject: `subject ${mark}`,
			html: text,
		}));
		t.is((await live.post(`/v1/templates/${body.id}/versions`, {variants})).status, 201);
	}
	const visitor = await visitorOf(service(), 'viewer', 'designed');
	const {status, text} = await visitor.get(`/templates/${body.id}/compare?from=1&to=2`);
	t.is(status, 200);
	t.is(text.match(/<ins>\+ subject new<\/ins>/g)?.length, 3, 'each subject');
	const shown = text.match(/<(?:ins|del)>/g)?.length ?? 0;
	t.true(shown > 2000 && shown < 6000, `${shown} lines`);
	t.is(text.match(/Only the beginning is shown/g)?.length, 2);
	t.is(text.match(/More than 2,000 lines differ/g)?.length, 1);
});

test('a diff reproduces both texts and keeps common lines', t => {
	const lines = fc
		.array(fc.constantFrom('a', 'b', 'c', ''), {minLength: 1, maxLength: 12})
		.map(all => all.join('\n'));
	fc.assert(
		fc.property(lines, lines, (before, after) => {
			const diff = diffLines(before, after) ?? [];
			const side = (other: string) => diff.filter(({kind}) => kind !== other).map(({text}) => text);
			t.is(side('added').join('\n'), before);
			t.is(side('removed').join('\n'), after);
		}),
	);
	t.deepEqual(
		diffLines('a\nb\nc\nd', 'a\nc\nx\nd')?.map(({kind, text}) => `${kind} ${text}`),
		['same a', 'removed b', 'same c', 'added x', 'same d'],
	);
	const long = (mark: string, length = 20_000) => Array.from({length}, (_, index) => `${mark}${index}`).join('\n');
	t.is(diffLines(long('a', 2000), long('b', 2000))?.length, 4000);
	t.is(diffLines(long('a', 2001), long('b', 1)), null, 'too long to compare');
	t.is(diffLines(long('a', 1), long('b', 2001)), null, 'too long to compare');
	const folded = fold(diffLines(`${long('a')}\nx`, `${long('a')}\ny`) ?? []);
	t.deepEqual(folded[0], {kind: 'folded', count: 19_997});
	t.is(folded.length, 6);
});

test.serial('rejects an invalid layout with the position, and does not offer to remove one in use', async t => {
	const visitor = await visitorOf(service(), 'operator', 'designed');
	const begun = await visitor.submit('/layouts', {kind: 'layout', name: 'frame'});
	t.regex(begun.text, /Layout frame/);
	t.is((await visitor.submit('/layouts', {kind: 'layout', name: 'two words'})).status, 422);
	const path = '/layouts/layout/frame';
	for (const verb of ['', '/review']) {
		const refused = await visitor.submit(`${path}${verb}`, {'file:body.html': 'no mark'});
		t.is(refused.status, 422);
		t.regex(refused.text, /_layouts\/frame\/body\.html:1:1: a layout must contain/);
		t.regex(refused.text, /no mark/, 'nothing typed is lost');
	}
	t.is((await visitor.get(path)).status, 404);
	t.is((await visitor.submit(path, {'file:body.html': '{{ content }}'})).location, '/layouts');
	t.regex((await visitor.get(path)).text, /Remove frame/);
	const {live, templates} = shop();
	const variants = [{subject: 'In a frame', html: '<p>Hi</p>'}];
	await live.post(`/v1/templates/${templates.receipt}/versions`, {variants, layout: 'frame'});
	t.notRegex((await visitor.get(path)).text, /Remove frame/);
	t.is((await visitor.submit(`${path}/delete`, {})).status, 422);
	await live.post(`/v1/templates/${templates.receipt}/versions`, {variants});
	t.is((await visitor.submit(`${path}/delete`, {})).location, '/layouts');
	t.is((await visitor.submit(`${path}/delete`, {})).status, 404);
});
