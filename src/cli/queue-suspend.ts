import type {Command} from 'commander';
import {resumeDestination, suspendDestination} from '../admin/suspensions.ts';
import {listWorkspaces} from '../store/workspaces.ts';
import {domain, label} from './options.ts';
import {verb} from './program.ts';
import {action, type Session} from './session.ts';
import {printable, shortTime} from './text.ts';
import {openWays} from './ways.ts';

/** With more of them only the sites that mail waits for are known. */
const mostWorkspaces = 1000;

/** The verbs that stop all mail to a domain, and let it go again. */
export function suspendVerbs(queue: Command): void {
	verb(
		queue,
		'suspend <domain>',
		'Send nothing to a domain until it is resumed; its mail is accepted and waits',
		"mailctl queue suspend example.com --reason 'their disk is full until Monday'",
	)
		.option('--reason <text>', 'why: shown by queue summary and queue why', label('--reason'))
		.action(
			action<{reason?: string}, [string]>(async (session, {reason}, text) => {
				const destination = domain(text);
				const suspension = await session.write(trx => suspendDestination(trx, session.tools, {destination, reason}));
				session.show({...suspension, suspended: true}, () => [
					`nothing is sent to ${destination} since ${shortTime(suspension.created_at)} UTC: ${printable(suspension.reason)}`,
				]);
			}),
		);

	verb(
		queue,
		'resume <domain>',
		'Let mail to a domain go again, whether an operator or failures had stopped it',
		'mailctl queue resume example.com',
	).action(
		action<object, [string]>(async (session, _options, text) => {
			const destination = domain(text);
			const known = await sitesOf(session, destination);
			const {suspension, sites} = await session.write(trx =>
				resumeDestination(trx, session.tools, {destination, sites: known}),
			);
			const resumed = suspension !== undefined || sites.length > 0;
			session.show({destination, suspended: false, resumed, sites}, () =>
				resumed
					? [
							...(suspension ? [`mail to ${destination} goes again`] : []),
							...sites.map(
								site => `one mail tries the site ${printable(site)} now, which was left alone after failures`,
							),
						]
					: [`${destination} was not suspended`],
			);
		}),
	);
}

/** The sites that mail to a destination would go to now, whoever's it is. */
async function sitesOf(session: Session, destination: string): Promise<string[]> {
	const ways = await openWays(session, {policies: false});
	const workspaces = await listWorkspaces(await session.reader());
	const all = await Promise.all(
		workspaces.slice(0, mostWorkspaces).map(({id}) => ways.wayOf({destination, workspaceId: id})),
	);
	return [...new Set(all.flatMap(way => [way.site, ...(way.warmUp?.overflow ? [way.warmUp.overflow.site] : [])]))];
}
