import {resumeDestination, suspendDestination} from '../../admin/queue.ts';
import {labelFault} from '../../kit/text.ts';
import {parseDomain} from '../../mail/address.ts';
import type {DashboardParts} from '../parts.ts';
import {type Answer, go, type Route, type Visit} from '../route.ts';

const path = '/queue';

/** Stops all mail to a domain, of every workspace, and resumes it. */
export function suspensionPages(
	{change}: DashboardParts,
	list: (visit: Visit, problem: string) => Promise<Answer>,
): readonly Route[] {
	async function suspend(visit: Visit): Promise<Answer> {
		const destination = parseDomain(visit.form.get('domain')?.trim() ?? '');
		const reason = visit.form.get('reason')?.trim() ?? '';
		if (destination === null) {
			return await list(visit, 'The domain must be a full name such as example.com.');
		}
		const fault = reason === '' ? null : labelFault(reason);
		if (fault !== null) {
			return await list(visit, `The reason ${fault}.`);
		}
		const wish = {destination, reason: reason === '' ? undefined : reason};
		await change(trx => suspendDestination(trx, visit.tools, wish));
		return go(`${path}/${destination}`, `Nothing is sent to ${destination} until you resume it. Its mail waits.`);
	}

	async function resume({params, tools}: Visit): Promise<Answer> {
		const destination = params.destination ?? '';
		const {suspension, sites} = await change(trx => resumeDestination(trx, tools, {destination, sites: []}));
		const isResumed = suspension !== undefined || sites.length > 0;
		return go(path, isResumed ? `Mail to ${destination} goes again.` : `${destination} was not suspended.`);
	}

	return [
		{method: 'POST', path: `${path}/suspend`, role: 'operator', everywhere: true, answer: suspend},
		{method: 'POST', path: `${path}/:destination/resume`, role: 'operator', everywhere: true, answer: resume},
	];
}
