import {
	act,
	badge,
	code,
	copyable,
	count,
	dangerItem,
	disclosure,
	facts,
	join,
	menu,
	name,
	nothing,
	section,
	type Tone,
	table,
	time,
} from '../../dashboard/markup.ts';
import {
	checkTyped,
	fieldInputs,
	operationForms,
	pageForms,
	readFields,
	rejectForm,
} from '../../dashboard/operation-form.ts';
import type {DashboardParts} from '../../dashboard/parts.ts';
import {type Answer, go, page, type Route, type Visit} from '../../dashboard/route.ts';
import {type Html, html} from '../../hosted/html.ts';
import {storeTime} from '../../kit/time.ts';
import {ConcurrencyLimit} from '../../kit/turns.ts';
import {listFields} from '../fields.ts';
import {checkedAddress} from '../formats.ts';
import {type CheckedRecord, describePurpose, keyAlgorithms, missingProofs} from './check-records.ts';
import {dmarcPeriod, firstDay, readReportedTls} from './dmarc.ts';
import {dmarcPage} from './dmarc-page.ts';
import {type DomainRecord, readDomainRecords, returnPathHost, zoneFile} from './domain-records.ts';
import {domainBadge, findChosenDomain} from './page.ts';
import type {TlsSum} from './reports-store.ts';
import {cancelRotation, removeDomain, rotateKeys, updateDomain} from './rules.ts';
import {hasSubmittedSender, senderForm, sendersSection} from './senders-page.ts';
import {addSender, prepareKeys} from './senders-rules.ts';
import {type DkimKey, type Domain, findDomainById, keyState, listDkimKeys} from './store.ts';
import {checkDomain, nextCheckAt, queryDomainRecords} from './verify-domain.ts';

/** How many pages and forms of one workspace may query DNS at once. */
const maxChecks = 4;

/** A record to publish, with what DNS returns for it if DNS was queried. */
type ShownRecord = DomainRecord & Partial<CheckedRecord>;

/** The page of a domain: its records, senders and signing keys. */
export function domainPages(parts: DashboardParts): readonly Route[] {
	const {reader, change, settings, domains, tools} = parts;
	const seats = new ConcurrencyLimit(maxChecks);
	const findChosen = (visit: Visit) => findChosenDomain(reader, visit);
	const queryDomain = (domain: Domain) =>
		queryDomainRecords(reader, domain, domains.names, domains.openSources, tools.clock.now());
	const readProposed = (domain: Domain, keys: readonly DkimKey[]) =>
		readDomainRecords(reader, domains.names, domain, keys, tools.clock.now());

	/** Returns the records, with DNS responses if requested, unless too many queries are running. */
	async function findRecords(
		domain: Domain,
		keys: readonly DkimKey[],
		isQueried: boolean,
	): Promise<readonly ShownRecord[]> {
		const releaseSeat = isQueried ? seats.take(domain.workspace_id) : undefined;
		try {
			return releaseSeat ? (await queryDomain(domain)).records : await readProposed(domain, keys);
		} finally {
			releaseSeat?.();
		}
	}

	async function show(visit: Visit, problem: string | null = null): Promise<Answer> {
		const {query, may, now} = visit;
		const domain = await findChosen(visit);
		const keys = await listDkimKeys(reader, domain.id);
		const isQueried = query.get('dns') === 'now';
		const records = await findRecords(domain, keys, isQueried);
		const hosts = [domain.name, returnPathHost(domain)];
		const tls = await readReportedTls(reader, domain, hosts, firstDay(dmarcPeriod.default, now));
		const next = domains.areChecked ? nextCheckAt(domain, keys, now) : null;
		const to = `/domains/${domain.id}`;
		return {
			kind: 'page',
			problem,
			place: 'domains',
			title: domain.name,
			actions: join([
				...(may('admin') ? [act({to: `${to}/verify`, label: 'Verify now'})] : []),
				html`<a class="button" href="${to}/dmarc">Who sends as you</a>`,
				html`<a class="button" href="${to}/zone">Zone file</a>`,
				...(may('admin') ? [linksForm(domain, visit.form)] : []),
				...(may('admin') ? [removeForm(domain)] : []),
			]),
			content: join([
				...(hasSubmittedSender(visit) ? [html`<div class="card">${senderForm(domain, visit.form)}</div>`] : []),
				refreshingRecords(
					to,
					records,
					html`<div class="card">${facts([
						['State', html`${domainBadge(domain.state)} since ${time(domain.state_at, now)}`],
						[
							'DNS checked',
							html`${time(domain.checked_at, now)}${next && html`, next ${time(next, now)}`}`,
						],
						[
							'Return path',
							domain.return_path_at === null
								? `${settings.returnPathDomain}, until DNS has the records of ${returnPathHost(domain)}`
								: returnPathHost(domain),
						],
						['Links', linksFact(domain)],
					])}</div>${section(
						'DNS records',
						html`<p class="soft">Publish these at the DNS provider of the domain. Each value is a single line, however long.</p>${recordCards(records)}`,
						isQueried ? nothing : html`<a href="${to}?dns=now">Query DNS now</a>`,
					)}`,
				),
				await sendersSection(reader, visit, domain),
				keysSection(visit, domain, keys),
				tlsSection(tls),
			]),
		};
	}

	async function zone(visit: Visit): Promise<Answer> {
		const domain = await findChosen(visit);
		const keys = await listDkimKeys(reader, domain.id);
		const body = zoneFile(domain.name, await readProposed(domain, keys), storeTime(visit.now)).map(
			line => `${line}\n`,
		);
		return {kind: 'content', type: 'text/plain; charset=utf-8', body: body.join(''), saveAs: `${domain.name}.zone`};
	}

	async function verify(visit: Visit): Promise<Answer> {
		const domain = await findChosen(visit);
		const releaseSeat = seats.take(domain.workspace_id);
		if (releaseSeat === undefined) {
			rejectForm('Too many DNS checks of this workspace are running. Try again in a moment.');
		}
		const find = () => findDomainById(reader, domain.workspace_id, domain.id);
		const checked = await checkDomain({find, check: queryDomain, write: change, acting: visit.tools}).finally(
			releaseSeat,
		);
		if (checked === undefined || checked === 'busy') {
			rejectForm('The domain was checked or removed in the meantime. Try again.');
		}
		const {state, name} = checked.domain;
		const result = state === 'verified' ? 'is verified' : `is ${state}: see the DNS responses below`;
		return go(`/domains/${domain.id}?dns=now`, `DNS was queried. ${name} ${result}.`);
	}

	async function checkRemoval(visit: Visit): Promise<void> {
		const {name} = await findChosen(visit);
		checkTyped(visit, name, `Nothing was removed: type ${name} to remove it.`);
	}

	async function prepareSender(visit: Visit, {address}: {readonly address: string}) {
		const {name, workspace_id: workspaceId} = await findChosen(visit);
		const {domain} = checkedAddress(address);
		if (domain !== name) {
			rejectForm(`The address of a sender of this domain must end with @${name}.`);
		}
		return await prepareKeys(reader, workspaceId, domain, domains.makeKeys);
	}

	const path = '/domains/:id';
	const form = operationForms(parts, {path, show});
	return [
		page(path, show),
		page(`${path}/dmarc`, async visit => {
			const domain = await findChosen(visit);
			return await seats.hold(domain.workspace_id, () => dmarcPage(visit, domain, {domains}));
		}),
		page(`${path}/zone`, zone),
		pageForms(show)(`${path}/verify`, 'admin', verify),
		form(
			updateDomain,
			`${path}/links`,
			({domain: {link_host: host}}) =>
				host === null ? 'Links use the public URL.' : `Links use ${host} once it resolves to this machine.`,
			{prepare: async () => ({ownHosts: domains.ownHosts})},
		),
		form(removeDomain, `${path}/remove`, ({name}) => go('/domains', `${name} is removed.`), {before: checkRemoval}),
		form(addSender, `${path}/senders`, ({address}) => `${address} is added.`, {
			read: visit => readFields(listFields(addSender.input), visit.form),
			prepare: prepareSender,
		}),
		form(rotateKeys, `${path}/keys/rotate`, () => 'New keys were created. Publish their records below.', {
			prepare: async visit => ({keys: await domains.makeKeys((await findChosen(visit)).workspace_id)}),
		}),
		form(
			cancelRotation,
			`${path}/keys/cancel`,
			({selectors}) => `The new keys (${selectors.join(', ')}) were discarded.`,
		),
	];
}

/** Fetches what depends on DNS after the page has loaded, and every 15 seconds until all records are published. */
function refreshingRecords(to: string, records: readonly ShownRecord[], content: Html): Html {
	const isQueried = records.some(({state}) => state !== undefined);
	const hasUnpublished = records.some(({ok}) => ok !== true);
	const repeat = hasUnpublished ? 'every 15s' : 'none';
	const trigger = isQueried ? repeat : 'load, every 15s';
	return html`<div id="dns" hx-get="${to}?dns=now" hx-trigger="${trigger}" hx-select="#dns" hx-swap="outerMorph">${content}</div>`;
}

function linksFact({link_host: host, links_ok_at: since}: Domain): string | null {
	return host === null || since !== null ? host : `the public URL, until ${host} resolves to this machine`;
}

function linksForm({id, link_host}: Domain, typed: URLSearchParams): Html {
	const fields = fieldInputs(linkFields, {values: {link_host}, typed});
	return disclosure('Link host', act({to: `/domains/${id}/links`, label: 'Save the link host', fields}));
}

const linkFields = listFields(updateDomain.input).filter(({name}) => name !== 'id');

function removeForm({id, name}: Domain): Html {
	const about = 'This also removes its keys: messages in transit may fail DKIM.';
	return menu([dangerItem({to: `/domains/${id}/remove`, label: 'Remove domain', about, typed: name})]);
}

const recordStates = {ok: 'published', missing: 'missing', different: 'different', unknown: 'no response'} as const;
const recordTones: Readonly<Record<CheckedRecord['state'], Tone>> = {
	ok: 'good',
	missing: 'bad',
	different: 'bad',
	unknown: 'warn',
};

/** Lists the records of a domain, ready to be copied, with their problems. */
function recordCards(records: readonly ShownRecord[]): Html {
	const proofs = missingProofs(records);
	const isQueried = records.some(({state}) => state !== undefined);
	const proofNotice =
		isQueried && proofs.length > 1
			? html`<div class="notice warn"><p>To verify the domain, publish either of these. Receiving mail servers require the DKIM record in any case.</p><ul>${proofs.map(
					record => html`<li>TXT <code>${record.name}</code></li>`,
				)}</ul></div>`
			: null;
	return html`${proofNotice}<ul class="records">${records.map(card)}</ul>`;
}

function card(record: ShownRecord): Html {
	const {type, name: owner, value, note, ready, problem = null, found, state, ok} = record;
	const purpose = describePurpose(record);
	const responses = ok ? [] : found.map(text => html`<p><code>${name(text)}</code></p>`);
	return html`<li class="card"><h3>${type} <span class="soft">${purpose}</span> ${recordBadge(record)}</h3>${facts([
		['Name', copyable(owner, `the name of ${owner}`)],
		['Value', ready ? copyable(value, `the value of ${owner}`) : null],
		['DNS returns', responses.length === 0 ? null : join(responses)],
		[state === 'ok' ? 'Remark' : 'Problem', problem],
		['Note', note],
	])}</li>`;
}

/** A missing record is only a warning if it is optional. */
function recordBadge({state, required}: ShownRecord): Html | null {
	if (state === undefined) {
		return null;
	}
	return badge(recordStates[state], recordTones[state] === 'bad' && !required ? 'warn' : recordTones[state]);
}

const keyTones: Readonly<Record<ReturnType<typeof keyState>, Tone>> = {
	active: 'good',
	pending: 'busy',
	retired: 'idle',
};

/** Lists the keys that sign messages from a domain, with a form that rotates them. */
function keysSection({may, now}: Visit, domain: Domain, keys: readonly DkimKey[]): Html {
	const isRotating = keys.some(key => keyState(key) === 'pending');
	const to = `/domains/${domain.id}/keys`;
	const about = 'This deletes the new keys.';
	const rotation = isRotating
		? html`<div class="actions">${menu([dangerItem({to: `${to}/cancel`, label: 'Cancel rotation', about})])}</div>`
		: act({to: `${to}/rotate`, label: 'Rotate the keys', look: 'quiet'});
	const list = table<DkimKey>({
		label: 'Signing keys',
		columns: [
			{title: 'Selector', cell: ({selector}) => code(selector)},
			{title: 'Algorithm', cell: ({algorithm}) => keyAlgorithms[algorithm]},
			{title: 'State', cell: key => badge(keyState(key), keyTones[keyState(key)])},
			{title: 'Created', cell: key => time(key.created_at, now), right: true},
		],
		rows: keys,
		empty: html`<p>This domain has no keys.</p>`,
	});
	const hint = isRotating
		? 'The old keys sign until every queried DNS server returns the records of the new ones.'
		: 'A rotation creates new keys. The old ones sign until DNS has the new records, so no message fails DKIM.';
	return section('Signing keys', html`<p class="soft">${hint}</p>${list}`, may('admin') ? rotation : nothing);
}

/** Lists the results of TLS connections to hosts of the domain, as others report them. */
function tlsSection(rows: readonly TlsSum[]): Html {
	const resultBadge = ({result}: TlsSum) => badge(result, result === 'success' ? 'good' : 'bad');
	const list = table<TlsSum>({
		label: 'TLS',
		columns: [
			// On a phone, the result is below the host, so that everything is visible without scrolling.
			{
				title: 'Host',
				cell: row => html`${name(row.domain)}<small class="narrow">${resultBadge(row)}</small>`,
				cut: true,
			},
			{title: 'Policy', cell: ({policy}) => policy, wide: true},
			{title: 'Result', cell: resultBadge, wide: true},
			{title: 'Connections', cell: row => `${count(row.count)} of ${count(row.total)}`, right: true},
		],
		rows,
		empty: html`<p>No reports in the last ${dmarcPeriod.default} days.</p>`,
	});
	const hint = `Connections to hosts of this domain in the last ${dmarcPeriod.default} days, as other mail systems report them. Failures come first.`;
	return section('TLS', html`<p class="soft">${hint}</p>${list}`);
}
