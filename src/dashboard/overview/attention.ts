import type {Knex} from 'knex';
import {sampleDomain} from '../../domains/domains.ts';
import {type Html, html} from '../../hosted/html.ts';
import {monthOf, storeTime} from '../../kit/time.ts';
import type {Domain} from '../../store/domains.ts';
import {listSiteSuspensions, listSuspensions} from '../../store/queue/open-recipients.ts';
import {readMonth} from '../../store/usage.ts';
import type {Endpoint} from '../../store/webhooks.ts';
import {findPaused, type Workspace} from '../../store/workspaces.ts';
import type {Found} from '../health/made-checks.ts';
import {badge, count, name, nothing, section, time} from '../markup.ts';

/** Something that keeps mail back, or will: worst first. */
type Trouble = {readonly tone: 'bad' | 'warn'; readonly what: string; readonly text: Html; readonly to: string};

type AttentionInput = {
	readonly workspace: Workspace;
	/** The user sees the other workspaces too. */
	readonly everywhere: boolean;
	readonly domains: readonly Domain[];
	readonly endpoints: readonly Endpoint[];
	/** Where its mail waits for. */
	readonly destinations: ReadonlySet<string>;
	/** What the checks of the installation found; null: they are being made. Absent: the user may not see them. */
	readonly checked?: Found | null | undefined;
	readonly now: number;
};

/** More of one kind are summed up. */
const mostOfAKind = 5;
/** As many paused workspaces are read. */
const mostPaused = 100;
/** The part of the month's quota from which on this page warns. */
const nearQuota = 0.9;

/** What needs somebody's hand, with a link to where it can be fixed. */
export async function attention(reader: Knex, input: AttentionInput): Promise<Html> {
	const troubles = [
		...(await pauses(reader, input)),
		...(await suspensions(reader, input)),
		...domainTroubles(input),
		...webhookTroubles(input),
		...(await quotaTroubles(reader, input)),
		...checkTroubles(input),
	];
	const checks = checksLine(input);
	if (troubles.length === 0) {
		return html`<p>${badge('all well', 'good')} Nothing is paused, suspended or failing. ${checks}</p>`;
	}
	const lines = troubles.map(
		({tone, what, text, to}) => html`<li>${badge(what, tone)} <div>${text} <a href="${to}">Look</a></div></li>`,
	);
	return section('Needs attention', html`<ul class="steps card">${lines}</ul>`, checks);
}

async function pauses(reader: Knex, {workspace, everywhere, now}: AttentionInput): Promise<Trouble[]> {
	const others = everywhere ? (await findPaused(reader, mostPaused)).filter(({id}) => id !== workspace.id) : [];
	return few(
		workspace.paused_at === null ? others : [workspace, ...others],
		one => ({
			tone: 'bad',
			what: 'paused',
			text: html`Workspace ${name(one.name)}, ${time(one.paused_at, now)}: ${name(one.pause_reason ?? 'by an operator')}. Its mail waits.`,
			to: `/workspaces/${one.id}`,
		}),
		left => ({tone: 'bad', what: 'paused', text: html`${left} more workspaces.`, to: '/workspaces'}),
	);
}

async function suspensions(reader: Knex, {workspace, destinations, now}: AttentionInput): Promise<Trouble[]> {
	const queueOf = (destination: string) => `/queue/${encodeURIComponent(destination)}`;
	const more = (left: number): Trouble => ({
		tone: 'warn',
		what: 'suspended',
		text: html`${left} more destinations.`,
		to: '/queue',
	});
	const sites = await listSiteSuspensions(reader, storeTime(now), {workspaceId: workspace.id});
	const byHand = (await listSuspensions(reader)).filter(({destination}) => destinations.has(destination));
	return [
		...few(
			byHand,
			({destination, reason, created_at: at}): Trouble => ({
				tone: 'warn',
				what: 'suspended',
				text: html`${name(destination)}, ${time(at, now)}: ${name(reason)}.`,
				to: queueOf(destination),
			}),
			more,
		),
		...few(
			sites,
			({destination, reason, waits_for: waitsFor, suspended_until: until}): Trouble => ({
				tone: waitsFor === 'route' ? 'bad' : 'warn',
				what: 'suspended',
				text: html`${name(destination)}, ${waitsFor === 'route' ? 'the smarthost refuses us' : 'its hosts fail'}, next try ${time(until, now)}: ${name(reason ?? '')}.`,
				to: queueOf(destination),
			}),
			more,
		),
	];
}

function domainTroubles({domains}: AttentionInput): Trouble[] {
	const lost = domains.filter(
		({name: own, state, verified_at: verified}) =>
			own !== sampleDomain && (state === 'degraded' || (state === 'failed' && verified !== null)),
	);
	return few(
		lost,
		({id, name: own}) => ({
			tone: 'bad',
			what: 'DNS',
			text: html`${name(own)} no longer shows its records: receivers cannot tell that the mail is yours.`,
			to: `/domains/${id}`,
		}),
		left => ({tone: 'bad', what: 'DNS', text: html`${left} more domains.`, to: '/domains'}),
	);
}

function webhookTroubles({endpoints, now}: AttentionInput): Trouble[] {
	return few(
		endpoints.filter(({failingSince, disabledAt}) => failingSince !== null && disabledAt === null),
		({id, url, failingSince}) => ({
			tone: 'warn',
			what: 'webhook',
			text: html`${name(url)} has failed since ${time(failingSince, now)}.`,
			to: `/webhooks/${id}`,
		}),
		left => ({tone: 'warn', what: 'webhook', text: html`${left} more webhooks fail.`, to: '/webhooks'}),
	);
}

async function quotaTroubles(reader: Knex, {workspace, now}: AttentionInput): Promise<Trouble[]> {
	const quota = workspace.monthly_quota;
	if (quota === null) {
		return [];
	}
	const {accepted} = await readMonth(reader, workspace.id, monthOf(now).name);
	if (accepted < quota * nearQuota) {
		return [];
	}
	const text = html`${count(accepted)} of ${count(quota)} messages of this month are used.`;
	return [{tone: accepted < quota ? 'warn' : 'bad', what: 'quota', text, to: `/workspaces/${workspace.id}`}];
}

function checkTroubles({checked}: AttentionInput): Trouble[] {
	const failed = checked?.findings.filter(({status}) => status === 'fail') ?? [];
	return few(
		failed,
		({check, detail}) => ({
			tone: 'bad',
			what: 'check',
			text: html`${check}: ${name(detail)}.`,
			to: '/health/checks',
		}),
		left => ({tone: 'bad', what: 'check', text: html`${left} more checks fail.`, to: '/health/checks'}),
	);
}

function checksLine({checked, now}: AttentionInput): Html {
	if (checked === undefined) {
		return nothing;
	}
	const when = checked === null ? 'The checks are being made.' : html`Checked ${time(storeTime(checked.at), now)}.`;
	return html`<span><span class="soft">${when}</span> <a href="/health/checks">Run the checks</a></span>`;
}

function few<Row>(rows: readonly Row[], each: (row: Row) => Trouble, more: (left: number) => Trouble): Trouble[] {
	const left = rows.length - mostOfAKind;
	return [...rows.slice(0, mostOfAKind).map(each), ...(left > 0 ? [more(left)] : [])];
}
