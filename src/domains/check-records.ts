import type {Resolver} from '../net/dns.ts';
import type {DomainRecord} from './domain-records.ts';
import {judgeRecord, type Verdict} from './record-verdict.ts';

/** Whom records are asked of. */
type RecordSources = {
	/** One per server of MAILCTL_DNS_SERVERS; the system's together are one. */
	readonly resolvers: readonly Resolver[];
	/** The servers of the domain's own zone, which know no old answers; null: they cannot be asked. */
	readonly authority: (domain: string) => Promise<Resolver | null>;
};

/** Sources for one check, closed after it. */
export type OpenSources = () => RecordSources & {readonly close: () => void};

export type CheckedRecord = DomainRecord &
	Verdict & {
		/** Somebody who was asked answers what is to be published. */
		readonly ok: boolean;
		/** All resolvers that answered do: others will see it too. */
		readonly everywhere: boolean;
	};

/**
 * Compares records with what DNS answers now. Each resolver is asked, not its memory of ours; what none of them has is
 * asked of the zone's own servers, because a resolver may remember for hours that there was nothing.
 */
export async function checkDomainRecords(
	domain: string,
	records: readonly DomainRecord[],
	{resolvers, authority}: RecordSources,
): Promise<CheckedRecord[]> {
	let asked: Promise<Resolver | null> | undefined;
	return await Promise.all(
		records.map(async record => {
			const verdicts = await Promise.all(resolvers.map(resolver => judgeRecord(resolver, record)));
			const answered = verdicts.filter(({state}) => state !== 'unknown');
			const everywhere = answered.length > 0 && answered.every(({state}) => state === 'ok');
			if (!verdicts.some(({state}) => state === 'ok')) {
				asked ??= authority(domain);
				const source = await asked;
				verdicts.push(...(source === null ? [] : [await judgeRecord(source, record)]));
			}
			return {...record, ...best(verdicts), everywhere};
		}),
	);
}

const order: ReadonlyArray<Verdict['state']> = ['ok', 'different', 'missing', 'unknown'];

function best(verdicts: readonly Verdict[]): Verdict & {ok: boolean} {
	const [verdict] = verdicts.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
	return {
		...(verdict ?? {state: 'unknown', found: [], problem: 'no resolver is set'}),
		ok: verdict?.state === 'ok',
	};
}
