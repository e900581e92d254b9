import {createSeats} from '../../api/turns.ts';
import {domainRecords, returnPathHost, zoneFile} from '../../domains/domain-records.ts';
import {removeDomain} from '../../domains/domains.ts';
import {checkDomain, lookAtDomain, nextCheckAt} from '../../domains/verify-domain.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {isId} from '../../mail/ids.ts';
import {type DkimKey, type Domain, findDomainById, listDkimKeys} from '../../store/domains.ts';
import {act, facts, join, nothing, opened, section, time} from '../markup.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, missing, type Route, type Visit} from '../route.ts';
import {keysSection} from './keys.ts';
import {domainBadge} from './list.ts';
import {recordCards, type ShownRecord} from './records.ts';
import {isSenderAsked, senderForm, sendersSection} from './senders.ts';

/** Looks at DNS of one workspace, at once. */
const mostAsked = 4;

/** What the page of a domain is made from, and where its forms lead back to. */
export type DomainPage = {
	/** The page again, with what was wrong with a form. */
	readonly show: (visit: Visit, domain: Domain, problem?: string) => Promise<Answer>;
	/** An answer about the domain that a path names, in the visitor's workspace. */
	readonly about: (work: (visit: Visit, domain: Domain) => Promise<Answer>) => Route['answer'];
};

export function createDomainPage({reader, change, settings, domains, tools}: DashboardParts): DomainPage & {
	readonly routes: readonly Route[];
} {
	const takeSeat = createSeats(mostAsked);
	const {clock} = tools;
	const look = (domain: Domain) => lookAtDomain(reader, domain, domains.names, domains.openSources, clock.now());
	const proposed = (domain: Domain, keys: readonly DkimKey[]) => domainRecords({...domains.names, domain, keys});

	/** With what DNS answers, where it is to be asked and not too many look already. */
	async function recordsOf(
		domain: Domain,
		keys: readonly DkimKey[],
		isAsked: boolean,
	): Promise<readonly ShownRecord[]> {
		const leave = isAsked ? takeSeat(domain.workspace_id) : undefined;
		try {
			return leave ? (await look(domain)).records : proposed(domain, keys);
		} finally {
			leave?.();
		}
	}

	async function show(visit: Visit, domain: Domain, problem?: string): Promise<Answer> {
		const {query, may, now} = visit;
		const keys = await listDkimKeys(reader, domain.id);
		const isAsked = query.get('dns') === 'now';
		const records = await recordsOf(domain, keys, isAsked);
		const next = domains.areChecked ? nextCheckAt(domain, keys, now) : null;
		const to = `/domains/${domain.id}`;
		return {
			kind: 'page',
			...(problem !== undefined && {status: 422, problem}),
			place: 'domains',
			title: domain.name,
			actions: join([
				...(may('admin') ? [act({to: `${to}/verify`, label: 'Verify now'})] : []),
				html`<a class="button" href="${to}/zone">Zone file</a>`,
				...(may('admin') ? [removeForm(domain)] : []),
			]),
			content: join([
				...(isSenderAsked(visit) ? [html`<div class="card">${senderForm(domain, visit.form)}</div>`] : []),
				following(
					to,
					records,
					html`<div class="card">${facts([
						['State', html`${domainBadge(domain.state)} since ${time(domain.state_at, now)}`],
						['DNS checked', html`${time(domain.checked_at, now)}${next && html`, next ${time(next, now)}`}`],
						[
							'Return path',
							domain.return_path_at === null
								? `${settings.returnPathDomain}, until DNS shows the records of its own (${returnPathHost(domain)})`
								: returnPathHost(domain),
						],
					])}</div>${section(
						'DNS records',
						html`<p class="soft">Publish these where the DNS of the domain is managed. Each value is one line, however long.</p>${recordCards(records)}`,
						isAsked ? nothing : html`<a href="${to}?dns=now">Ask DNS now</a>`,
					)}`,
				),
				await sendersSection(reader, visit, domain),
				keysSection(visit, domain, keys),
			]),
		};
	}

	const about: DomainPage['about'] = work => async visit => {
		const {id = ''} = visit.params;
		const domain = isId('dom', id) ? await findDomainById(reader, visit.workspace.id, id) : undefined;
		return domain ? await work(visit, domain) : missing('This workspace has no such domain.');
	};

	async function zone({now}: Visit, domain: Domain): Promise<Answer> {
		const lines = zoneFile(domain.name, proposed(domain, await listDkimKeys(reader, domain.id)), storeTime(now));
		const body = lines.map(line => `${line}\n`).join('');
		return {kind: 'content', type: 'text/plain; charset=utf-8', body, saveAs: `${domain.name}.zone`};
	}

	async function verify(visit: Visit, domain: Domain): Promise<Answer> {
		const leave = takeSeat(domain.workspace_id);
		if (leave === undefined) {
			return await show(
				visit,
				domain,
				'Others ask DNS about domains of this workspace just now. Try again in a moment.',
			);
		}
		const find = () => findDomainById(reader, domain.workspace_id, domain.id);
		const checked = await checkDomain({find, look, write: change, acting: visit.tools}).finally(leave);
		if (checked === undefined || checked === 'busy') {
			return await show(visit, domain, 'The domain was checked or removed meanwhile. Try again.');
		}
		const {state, name} = checked.domain;
		const said = state === 'verified' ? 'is verified' : `is ${state}: see below what DNS answers`;
		return go(`/domains/${domain.id}?dns=now`, `DNS was asked. ${name} ${said}.`);
	}

	async function remove(visit: Visit, domain: Domain): Promise<Answer> {
		if (visit.form.get('typed') !== domain.name) {
			return await show(visit, domain, `Nothing was removed: type ${domain.name} to remove it.`);
		}
		const senders = await change(trx => removeDomain(trx, visit.tools, domain));
		return senders
			? await show(visit, domain, `${domain.name} has senders (${senders.length}). Remove them first.`)
			: go('/domains', `${domain.name} is removed.`);
	}

	const routes: readonly Route[] = [
		{method: 'GET', path: '/domains/:id', role: 'viewer', answer: about((visit, domain) => show(visit, domain))},
		{method: 'GET', path: '/domains/:id/zone', role: 'viewer', answer: about(zone)},
		{method: 'POST', path: '/domains/:id/verify', role: 'admin', answer: about(verify)},
		{method: 'POST', path: '/domains/:id/remove', role: 'admin', fresh: true, answer: about(remove)},
	];

	return {show, about, routes};
}

/** What DNS changes: asked for once the page is there, then again while somebody looks and a record is not there yet. */
function following(to: string, records: readonly ShownRecord[], content: Html): Html {
	const isAsked = records.some(({state}) => state !== undefined);
	const isAwaited = records.some(({ok}) => ok !== true);
	const trigger = isAsked ? (isAwaited ? 'every 15s' : 'none') : 'load, every 15s';
	return html`<div id="dns" hx-get="${to}?dns=now" hx-trigger="${trigger}" hx-select="#dns" hx-swap="outerMorph">${content}</div>`;
}

function removeForm({id, name}: Domain): Html {
	const words = html`<p>Its keys go too: mail that is on its way may fail DKIM.</p>`;
	return opened(
		'Remove',
		html`${words}${act({to: `/domains/${id}/remove`, label: `Remove ${name}`, look: 'danger', typed: name})}`,
	);
}
