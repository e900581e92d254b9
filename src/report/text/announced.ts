import type {Detector, Finding} from './finding.ts';
import {readListed} from './listed.ts';

// The line of each that announces the recipients; each recipient then stands on a line of his own, his reason behind or below.
const announcements: Readonly<Record<string, RegExp>> = {
	opensmtpd: /^.{0,80}for\s{1,12}the following\s{1,12}list of recipients:?[ \t]*$/im,
	courier: /^.{0,40}Your message to the following recipients? (?:cannot|could not) be delivered:?[ \t]*$/im,
	workmail: /^.{0,80}trying to deliver the mail to the following recip(?:ients?)?:?[ \t]*$/im,
	smtpsvc: /^.{0,40}Delivery to the following recipients?[^\n]{0,40}(?:fail|delay|abort|expir)[^\n]{0,60}$/im,
	powermta: /^.{0,40}the affected recipients;[^\n]{0,120}(?:\n[^\n]{1,120}){0,4}$/im,
	// MailMarshal tells the reason above.
	marshal: /^.{0,40}The following recipients? (?:were|was) affected:?[ \t]*$/im,
	hmail: /^.{0,40}The following recipients?(?:\(s\))? could not be reached:?[ \t]*$/im,
	groupwise: /^.{0,40}The message that you sent was undeliverable to the following:?[ \t]*$/im,
	smail: /^[ \t]{0,8}\|?-{3,}[ \t]*Failed addresses follow:?[ \t]*-{3,}\|?[ \t]*$/im,
	errors: /^[ \t]{0,8}-{3,} ?The following addresses? had (?:delivery |permanent )?(?:errors?|problems?)[^\n]{0,20}$/im,
	undeliverable:
		/^.{0,80}(?:was|is|were|been|be) (?:undeliverable|not delivered|not be delivered|delivered) to the following (?:recipients?|addresse?s?|e-?mail addresse?s?|users?|persons?|destinations?)?(?:\(e?s\))?[^\n]{0,40}$/im,
	following:
		/^.{0,120}(?:to|for|of) (?:one or more of )?the following (?:list of )?(?:e-?mail )?(?:recipient|address|user|person|destination)(?:s|es|\(s\)|\(es\))?[^\n]{0,60}:[ \t]*$/im,
};

/** Mail systems of which no more is their own than how they announce their list. */
export const readAnnounced: Detector = ({said, senders}): Finding[] => {
	for (const after of Object.values(announcements)) {
		const listed = readListed(said, {
			after,
			until: /^Additional Information[ \t]*$/m,
			except: after === announcements.following ? senders : [],
		});
		if (listed.length > 0) {
			return listed;
		}
	}
	return [];
};
