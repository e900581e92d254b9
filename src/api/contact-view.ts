import {apiTime} from '../mail/time.ts';
import type {Contact} from '../store/contacts.ts';

/** A contact as the API shows it. */
export function contactView(contact: Contact) {
	return {
		id: contact.id,
		email: contact.address,
		locale: contact.locale,
		timezone: contact.timezone,
		created_at: apiTime(contact.createdAt),
		updated_at: apiTime(contact.updatedAt),
		topics: contact.topics,
		suppressed: contact.suppressed,
	};
}
