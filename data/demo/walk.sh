
# 1. Sign a user up, and log the demo's user in.
VIEWER="viewer-$(date +%s)@example.org"
ANSWER=$(curl -sS -w ' -> %{http_code}' -X PUT "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"a long pass phrase\",\"name\":\"Vera Viewer\"}"); echo "$ANSWER"    # 200
V="Authorization: Bearer $(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')"; VIEWER_ID=$(echo "$ANSWER" | sed -n 's/.*"userId":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$IDENTITY\",\"accessKey\":\"$ACCESS_KEY\"}"); echo "$ANSWER"    # 200
U="Authorization: Bearer $(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')"; USER_ID=$(echo "$ANSWER" | sed -n 's/.*"userId":"\([^"]*\)".*/\1/p')
curl -sS -w ' -> %{http_code}\n' "$BASE/api/user/v1/users/$USER_ID" -H "$P" -H "$U"    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"not the pass phrase\"}"    # 401

# 2. The catalogue and the schedule: S6, S6 an hour ago, S5, S4, S3, and the deprecated S2 and S1.
curl -sS -w ' -> %{http_code}\n' "$BASE/api/catalog/v1/livestreams" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' "$BASE/api/catalog/v1/assets" -H "$P"    # 200
ANSWER=$(curl -sS -w ' -> %{http_code}' "$BASE/api/schedule/v1/broadcasts/live?livestreams=open" -H "$P"); echo "$ANSWER"    # 200
BROADCAST=$(echo "$ANSWER" | sed -n 's/.*"current":{"id":"\([^"]*\)".*/\1/p')
curl -sS -w ' -> %{http_code}\n' "$BASE/api/schedule/v1/broadcasts/live?livestreams=open,blackout&offset=-3600" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' --compressed -o /dev/null "$BASE/api/schedule/v1/broadcasts/day/$(date -u +%F)?livestreams=open,blackout,cinema,news" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' "$BASE/api/schedule/v1/broadcasts?broadcasts=$BROADCAST,$CATCHUP" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' "$BASE/api/schedule/v1/broadcasts/$BROADCAST" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' -o /dev/null "$BASE/api/schedule/v1/livestreams/open/day/$(date -u +%F)" -H "$P"    # 200
curl -sS -w ' -> %{http_code}\n' "$BASE/api/schedule/v1/livestreams/open/live?offset=1" -H "$P"    # 400
curl -sS -w ' -> %{http_code}\n' "$BASE/api/schedule/v1/livestreams/open/live" -H "$P"    # 200

# 3. Play an encrypted film: entitlement, preflight, license, playlist, heartbeat, end.
DEVICE=$(mktemp); PLAY=$(mktemp)
printf '%s\n' 'Service-Play-DRM: clearkey' 'Service-Play-Protocol: dash' 'Service-Play-DevicePlatform: web' 'Service-Play-DeviceType: browser' 'Service-Play-DeviceModel: curl' 'Service-Play-DeviceId: demo-device' > "$DEVICE"
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/entitlement/v2/asset/film-open" -H "$P" -H "$U"); echo "$ANSWER"    # 200
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/playback/v2/preflight/asset/film-open" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"    # 200
PLAYLIST=$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p'); LICENSE=$(echo "$ANSWER" | sed -n 's/.*"license":"\([^"]*\)".*/\1/p'); HEARTBEAT=$(echo "$ANSWER" | sed -n 's/.*"heartbeat":"\([^"]*\)".*/\1/p')
(cat "$DEVICE"; echo "Service-Play-EntitlementId: $ENTITLEMENT"; echo "$ANSWER" | sed -n 's/.*"Service-Play-Session":"\([^"]*\)".*/Service-Play-Session: \1/p') > "$PLAY"
curl -sS -w ' -> %{http_code}\n' -X POST "$LICENSE" -H "$P" -H "$U" -H "@$PLAY" -d '{"kids":["WtHA3gAAQACAAAAAAAAAAQ"],"type":"temporary"}'    # 200
curl -sS -w ' -> %{http_code}\n' "$PLAYLIST"    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H 'Service-Play-Timestamp: 3' -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'    # 200
curl -sS -w ' -> %{http_code}\n' -X DELETE "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY"    # 204
curl -sS -w ' -> %{http_code}\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H 'Service-Play-Timestamp: 5' -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'    # 410

# 4. A film for adults: the PIN is asked for, and given.
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/film-adult" -H "$P" -H "$U"    # 403
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/film-adult" -H "$P" -H "$U" -d "{\"pinCode\":\"$PIN_CODE\"}"    # 200

# 5. A film that must be bought: refused, granted by the operator, allowed, revoked.
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/film-premium" -H "$P" -H "$V"    # 403
curl -sS -w ' -> %{http_code}\n' -X PUT "$OPS/admin/v1/users/$VIEWER_ID/grants/premium" -H "$O" -d '{}'    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/film-premium" -H "$P" -H "$V"    # 200
curl -sS -w ' -> %{http_code}\n' -X DELETE "$OPS/admin/v1/users/$VIEWER_ID/grants/premium" -H "$O"    # 204

# 6. A broadcast without live rights: refused live, allowed an hour back, 552 when the player returns to live. The
#    livestreams play for ever: any player of DASH or HLS takes the playlist, and its position is the Unix time.
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/blackout" -H "$P" -H "$U"    # 403
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/entitlement/v2/asset/blackout?offset=$OFFSET_OPEN" -H "$P" -H "$U"); echo "$ANSWER"    # 200
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/playback/v2/preflight/asset/blackout" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"    # 200
(cat "$DEVICE"; echo "Service-Play-EntitlementId: $ENTITLEMENT"; echo "$ANSWER" | sed -n 's/.*"Service-Play-Session":"\([^"]*\)".*/Service-Play-Session: \1/p') > "$PLAY"
curl -sS -w ' -> %{http_code}\n' "$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p')"    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H "Service-Play-Timestamp: $(($(date +%s) + OFFSET_OPEN))" -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H "Service-Play-Timestamp: $(date +%s)" -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'    # 552
curl -sS -w ' -> %{http_code}\n' -X DELETE "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY"    # 204

# 7. Catch-up of a finished broadcast; a film in the clear over HLS.
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/entitlement/v2/asset/$CATCHUP" -H "$P" -H "$U"    # 200
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/entitlement/v2/asset/film-clear" -H "$P" -H "$U"); echo "$ANSWER"    # 200
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
sed -i.old -e 's/DRM: .*/DRM: none/' -e 's/Protocol: .*/Protocol: hls/' "$DEVICE"
ANSWER=$(curl -sS -w ' -> %{http_code}' -X POST "$BASE/api/playback/v2/preflight/asset/film-clear" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"    # 200
curl -sS -w ' -> %{http_code}\n' "$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p')"    # 200

# 8. Telemetry: accepted once, and known when it comes again.
EVENTS="[{\"timestamp\":$(date +%s),\"source\":\"APP_ACTION\",\"component\":\"player/demo\",\"action\":\"playback_buffering\",\"seqId\":1,\"context\":{\"playback_buffering_type\":\"initial\",\"duration\":0.4,\"asset_id\":\"film-open\",\"device_id\":\"demo-device\"},\"extra\":{\"player_version\":\"1.0\"}}]"
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/tracker/v1/telemetry-events" -H "$P" -H "$U" -d "$EVENTS"    # 202
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/tracker/v1/telemetry-events" -H "$P" -H "$U" -d "$EVENTS"    # 202

# 9. Reset a password: the mail lies in the sink; the old token ends with the reset.
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/login/v2/password/send-reset-password" -H "$P" -d "{\"email\":\"$VIEWER\",\"locale\":\"en\"}"    # 200
MAIL=$(curl -sS "$OPS/admin/v1/mail" -H "$O" | sed -e 's/},{/}\n{/g' | grep "\"$VIEWER\"" | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p')
RESET=$(curl -sS "$OPS/admin/v1/mail/$MAIL" -H "$O" | sed -n 's/.*token=\([A-Za-z0-9_-]*\).*/\1/p')
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/login/v2/password/reset" -H "$P" -d "{\"token\":\"$RESET\",\"password\":\"another pass phrase\"}"    # 200
curl -sS -w ' -> %{http_code}\n' "$BASE/api/user/v1/users/$VIEWER_ID" -H "$P" -H "$V"    # 401
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"another pass phrase\"}"    # 200
curl -sS -w ' -> %{http_code}\n' -X POST "$BASE/api/login/v2/auth/logout" -H "$P" -H "$U"    # 200
rm -f "$DEVICE" "$DEVICE.old" "$PLAY"
