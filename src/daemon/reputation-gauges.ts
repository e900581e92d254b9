import {Gauge, type Registry} from 'prom-client';
import {figureNames, spans} from '../mail/reputation.ts';
import type {Refusals} from '../reputation/alarm.ts';
import type {ReputationStatus} from '../store/reputation.ts';

/** Asked at each scrape; the store may fail, then the gauges are left out. */
export type ReputationGaugesInput = {
	readonly statuses: () => Promise<readonly ReputationStatus[]>;
	/** Providers that refuse too much because of us. */
	readonly refusals: () => readonly Refusals[];
};

/** A workspace's id is a label's value: only those that are paused or warned of and those with most mail are told. */
const mostWorkspaces = 100;
const mostProviders = 20;

/** What the reputation guard judges by, and what it came to. */
export function registerReputationGauges(registers: Registry[], {statuses, refusals}: ReputationGaugesInput): void {
	let asked: Promise<readonly ReputationStatus[]> | null = null;
	/** Both gauges of a scrape get the same answer. */
	const told = () => {
		asked ??= statuses()
			.then(worstFirst, () => [])
			.finally(() => {
				asked = null;
			});
		return asked;
	};
	new Gauge({
		name: 'mailctl_reputation_copies',
		help: `Copies by which a workspace is judged, of the last 24 hours (day) and 7 days (week): the ${mostWorkspaces} workspaces with most, those warned of or paused first.`,
		labelNames: ['workspace', 'window', 'what'],
		registers,
		async collect() {
			const shown = await told();
			this.reset();
			for (const {id, windows} of shown) {
				for (const span of spans) {
					for (const name of figureNames) {
						this.set({workspace: id, window: span, what: name}, windows[span][name]);
					}
				}
			}
		},
	});
	new Gauge({
		name: 'mailctl_workspace_trouble',
		help: 'Always 1: the workspace is paused, by its figures or by hand, or its figures are too high (warned).',
		labelNames: ['workspace', 'state'],
		registers,
		async collect() {
			const shown = await told();
			this.reset();
			for (const {id, pausedAt, warnedAt} of shown) {
				if (pausedAt !== null || warnedAt !== null) {
					this.set({workspace: id, state: pausedAt === null ? 'warned' : 'paused'}, 1);
				}
			}
		},
	});
	new Gauge({
		name: 'mailctl_infrastructure_refused_ratio',
		help: 'Share of the attempts of the last hour that a provider refused because of us, if above 0.05.',
		labelNames: ['provider'],
		registers,
		collect() {
			this.reset();
			const most = [...refusals()].sort((a, b) => b.refused - a.refused).slice(0, mostProviders);
			for (const {provider, attempts, refused} of most) {
				this.set({provider}, refused / attempts);
			}
		},
	});
}

function worstFirst(statuses: readonly ReputationStatus[]): readonly ReputationStatus[] {
	const rank = ({pausedAt, warnedAt}: ReputationStatus) => (pausedAt === null ? 0 : 2) + (warnedAt === null ? 0 : 1);
	return statuses
		.toSorted((a, b) => rank(b) - rank(a) || b.windows.week.attempted - a.windows.week.attempted)
		.slice(0, mostWorkspaces);
}
