import type {Claimed} from '../../src/store/queue/claims.ts';

/** A claimed recipient of a mail from a template, never tried. */
export function claimedMail(own: Partial<Claimed>): Claimed {
	return {
		...{id: 'rcp_1', workspace_id: 'ws_1', message_id: 'msg_1', template_id: 'tpl_1', version_id: 'tpv_1'},
		...{address: 'ada@a.test', address_key: 'ada@a.test', role: 'to', destination: 'a.test', subject: null},
		...{attempts: 0, sent_at: null, state_at: '2026-06-09T00:00:00.000Z', created_at: '2026-06-09T00:00:00.000Z'},
		...{last_category: null, last_reply: null, crashes: 0, mode: 'live', attachments: 0, stop: null, queued: null},
		...{from_address: 'a@shop.example', to_address: 'ada@a.test', reply_to: null, cc: null, data: null},
		...{topic_id: null, topic_code: null, locale: null, timezone: null, tracking: null, extras: null, sealed: null},
		...{workspace_name: 'Shop', workspace_locale: null, workspace_timezone: null, queue_lifetime_s: null},
		...{track_opens_at: null, track_clicks_at: null, sender_id: 'snd_1', sender_name: null, domain_id: 'dom_1'},
		...own,
	};
}
