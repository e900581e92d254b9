import {apiError} from '../../api/errors.ts';
import {createReadSend} from '../../api/read-send.ts';
import {createChecks} from '../../api/validate.ts';
import {type Html, html} from '../../hosted/html.ts';
import {parseExact} from '../../kit/exact-json.ts';
import type {Sender} from '../../store/domains.ts';
import {act, input, join, select} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';
import {chosenTemplate, chosenVersion, localeName, noTemplate, type Saved} from './chosen.ts';

/** Sends the newest version with its sample to one address: a message like any other, with every check of a send. */
export function testSendPages({reader, accept, mayAccept}: DashboardParts): readonly Route[] {
	const readSend = createReadSend(createChecks());

	async function send(visit: Visit): Promise<Answer> {
		const {form, workspace, tools} = visit;
		const template = await chosenTemplate(reader, visit);
		const saved = template && (await chosenVersion(reader, template, null));
		if (!template || !saved) {
			return noTemplate;
		}
		const locale = form.get('locale') ?? '';
		const body = {
			from: form.get('from') ?? '',
			to: form.get('to')?.trim() ?? '',
			templateId: template.id,
			data: parseExact(saved.version.sample ?? '{}'),
			...(locale !== '' && {locale}),
		};
		const refused = (why: string): Answer => ({
			kind: 'page',
			status: 422,
			place: 'templates',
			title: `Send a test of ${template.name}`,
			problem: `Nothing was sent: ${why}`,
			actions: html`<a class="button" href="/templates/${template.id}">Back to the template</a>`,
			content: html`<div class="card stack">${fieldsOf(visit, body.to, saved, template.id)}</div>`,
		});
		const read = readSend(body, {workspaceId: workspace.id, mode: 'live'});
		if (!read.ok) {
			return refused((read.violations ?? []).map(({field, message}) => `${field} ${message}.`).join(' '));
		}
		const accepted = mayAccept()
			? await accept.single({...read.send, by: tools.operator}, null)
			: ({ok: false, code: 'unavailable'} as const);
		return accepted.ok
			? go(`/messages/${accepted.id}`, `Version ${saved.version.version} is on its way to ${body.to}.`)
			: refused(apiError(accepted.code).message);
	}

	return [{method: 'POST', path: '/templates/:id/test', role: 'operator', answer: send}];
}

/** What a refused test had, to be corrected. */
function fieldsOf({form}: Visit, to: string, {variants}: Saved, id: string): Html {
	const from = form.get('from') ?? '';
	return testAct(id, {variants, from, senders: [from], locale: form.get('locale') ?? '', to});
}

/** The form; without a sender that may send, what to do first. */
export function testForm(id: string, {variants}: Saved, query: URLSearchParams, senders: readonly Sender[]): Html {
	const able = senders.filter(
		({verified_at: verified, disabled_at: disabled}) => verified !== null && disabled === null,
	);
	const [first] = able;
	if (!first) {
		return html`<p>There is no verified sender yet. <a href="/domains">Add a domain and a sender</a> first.</p>`;
	}
	const addresses = able.map(({address}) => address);
	const locale = query.get('locale') ?? variants[0]?.locale ?? '';
	return html`<div class="stack">${testAct(id, {variants, from: first.address, senders: addresses, locale, to: ''})}</div>`;
}

type Fields = Pick<Saved, 'variants'> & {
	readonly from: string;
	readonly senders: readonly string[];
	readonly locale: string;
	readonly to: string;
};

function testAct(id: string, {variants, from, senders, locale, to}: Fields): Html {
	const languages = variants.map(one => ({value: one.locale ?? '', label: localeName(one.locale)}));
	const fields = join([
		input({name: 'to', label: 'To', value: to, type: 'email', required: true}),
		select(
			{name: 'from', label: 'From', value: from},
			senders.map(address => ({value: address, label: address})),
		),
		...(languages.length > 1 ? [select({name: 'locale', label: 'Language', value: locale}, languages)] : []),
		html`<small>The newest version with its sample variables. It counts as a message.</small>`,
	]);
	return act({to: `/templates/${id}/test`, label: 'Send it', fields});
}
