import type {Knex} from 'knex';
import * as workspaces from './001_workspaces.ts';
import * as messages from './002_messages.ts';
import * as optOuts from './003_opt_outs.ts';
import * as accounting from './004_accounting.ts';
import * as delivery from './005_delivery.ts';
import * as reports from './006_reports.ts';
import * as webhooks from './007_webhooks.ts';
import * as interfaceNeeds from './008_interface.ts';
import * as pacing from './009_pacing.ts';
import * as inbound from './010_inbound.ts';
import * as audit from './011_audit.ts';
import * as lists from './012_lists.ts';
import * as webhookSecrets from './013_webhook_secrets.ts';
import * as secrets from './014_secrets.ts';

/** Every migration in order, by a name without extension: knex refuses a folder whose file extensions changed. Append only. */
export const migrations: ReadonlyArray<readonly [name: string, up: (knex: Knex) => Promise<void>]> = [
	['001_workspaces', workspaces.up],
	['002_messages', messages.up],
	['003_opt_outs', optOuts.up],
	['004_accounting', accounting.up],
	['005_delivery', delivery.up],
	['006_reports', reports.up],
	['007_webhooks', webhooks.up],
	['008_interface', interfaceNeeds.up],
	['009_pacing', pacing.up],
	['010_inbound', inbound.up],
	['011_audit', audit.up],
	['012_lists', lists.up],
	['013_webhook_secrets', webhookSecrets.up],
	['014_secrets', secrets.up],
];
