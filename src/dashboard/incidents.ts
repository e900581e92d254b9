import type {Knex} from 'knex';
import {LRUCache} from 'lru-cache';
import {type Html, html} from '../hosted/html.ts';
import type {Clock} from '../kit/clock.ts';
import {type Incident, type IncidentScope, readIncidents} from '../resources/alerts/incidents.ts';
import type {CheckReport} from './health.ts';
import {badge, count, name, nothing, time} from './markup.ts';
import type {Visit} from './route.ts';

/** A list on one page. Beyond that, the first ones are what matters. */
const maxListed = 200;

/** Returns what the user of a page may see. `checked` is the last report of the checks, if there is one. */
function incidentScope({request, everywhere, may, now}: Visit, checked: CheckReport | null | undefined): IncidentScope {
	const failed = checked?.findings.filter(({status}) => status === 'fail') ?? [];
	const workspace = request.visitor?.workspace ?? null;
	return {workspace, everywhere, failedChecks: maySeeChecks({may, everywhere}) ? failed : [], now};
}

/** Reads what is wrong in everything that the user of a page may see. */
export function readVisible(
	reader: Knex,
	visit: Visit,
	checked: CheckReport | null | undefined,
): Promise<readonly Incident[]> {
	return readIncidents(reader, incidentScope(visit, checked));
}

/** Only admins of the installation may see what the checks found. */
export const maySeeChecks = ({may, everywhere}: Pick<Visit, 'may' | 'everywhere'>): boolean =>
	everywhere && may('admin');

/** How many incidents there are, and how bad the worst one is. */
export type IncidentCount = {readonly count: number; readonly worst: Incident['tone'] | null};

const maxScopes = 200;
const shareMs = 5000;
/** A count is shared for so many times as long as it took: counting a million waiting messages takes half a second. */
const restFactor = 20;

type Shared = {
	/** In monotonic milliseconds; infinite while it is being counted. */
	until: number;
	result: Promise<IncidentCount | null>;
	/** The count before, which pages get while a new one is being made. */
	last: IncidentCount | null;
};

/** Counts incidents for the navigation of every page. */
export class IncidentCounter {
	readonly #reader: Knex;
	readonly #clock: Pick<Clock, 'monotonic'>;
	readonly #shared = new LRUCache<string, Shared>({max: maxScopes});

	constructor(reader: Knex, clock: Pick<Clock, 'monotonic'>) {
		this.#reader = reader;
		this.#clock = clock;
	}

	/** Returns `null` if they cannot be counted now: a page is shown without its count then. */
	async count(visit: Visit, checked: CheckReport | null): Promise<IncidentCount | null> {
		const scope = incidentScope(visit, checked);
		const key = `${scope.workspace?.id} ${scope.everywhere} ${scope.failedChecks.length}`;
		const known = this.#shared.get(key);
		if (known === undefined) {
			const first: Shared = {until: 0, result: Promise.resolve(null), last: null};
			this.#shared.set(key, first);
			return await this.#renew(first, scope);
		}
		const renewed = this.#clock.monotonic() < known.until ? known.result : this.#renew(known, scope);
		return known.last ?? (await renewed);
	}

	#renew(shared: Shared, scope: IncidentScope): Promise<IncidentCount | null> {
		const startedAt = this.#clock.monotonic();
		shared.until = Number.POSITIVE_INFINITY;
		shared.result = readIncidents(this.#reader, scope).then(toCount, () => null);
		void shared.result.then(counted => {
			const now = this.#clock.monotonic();
			shared.last = counted;
			shared.until = now + Math.max(shareMs, restFactor * (now - startedAt));
		});
		return shared.result;
	}
}

function toCount(incidents: readonly Incident[]): IncidentCount {
	const isBad = incidents.some(({tone}) => tone === 'bad');
	return {count: incidents.length, worst: incidents.length === 0 ? null : isBad ? 'bad' : 'warn'};
}

/** Shows incidents, at most `limit`, with a link to the rest. */
export function incidentList(incidents: readonly Incident[], now: number, limit = maxListed): Html {
	if (incidents.length === 0) {
		return html`<p>${badge('all well', 'good')} Nothing is paused, suspended or failing.</p>`;
	}
	const lines = incidents.slice(0, limit).map(incident => {
		const {tone, label, detail, fix, to} = incident;
		const advice = fix === null ? nothing : html` To fix: ${name(fix)}.`;
		return html`<li>${badge(label, tone)} <div>${name(detail)}.${advice} <a href="${to}">View</a>${facts(incident, now)}</div></li>`;
	});
	const rest = incidents.length - limit;
	const more = rest > 0 ? html`<p class="more"><a href="/alerts">${count(rest)} more</a></p>` : nothing;
	return html`<ul class="steps card incidents">${lines}</ul>${more}`;
}

function facts({since, waiting, owner}: Incident, now: number): Html {
	const parts = [
		...(waiting ? [html`${count(waiting)} ${waiting === 1 ? 'message waits' : 'messages wait'}`] : []),
		...(since === null ? [] : [html`since ${time(since, now)}`]),
		...(owner === null ? [] : [html`for ${owner} to fix`]),
	];
	const [first, ...others] = parts;
	return first === undefined
		? nothing
		: html`<br><span class="soft">${first}${others.map(part => html` · ${part}`)}</span>`;
}
