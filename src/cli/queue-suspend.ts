import type {Command} from 'commander';
import {resumeDestination, suspendDestination} from '../admin/suspensions.ts';
import {operator} from './daemons.ts';
import {domain, label} from './options.ts';
import {verb} from './program.ts';
import {action} from './session.ts';
import {printable, shortTime} from './text.ts';

const noReason = 'suspended by the operator';

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
			action<{reason?: string}, [string]>(async (session, {reason = noReason}, text) => {
				const destination = domain(text);
				const suspension = await session.write(trx =>
					suspendDestination(trx, session.tools, {destination, reason}, operator()),
				);
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
			const {suspension, sites} = await session.write(trx =>
				resumeDestination(trx, session.tools, destination, operator()),
			);
			const resumed = suspension !== undefined || sites.length > 0;
			session.show({destination, suspended: false, resumed, sites}, () =>
				resumed
					? [
							`mail to ${destination} goes again`,
							...sites.map(site => `with it all mail to the site ${printable(site)}, which failures had stopped`),
						]
					: [`${destination} was not suspended`],
			);
		}),
	);
}
