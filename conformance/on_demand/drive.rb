# Calls Google's library for Drive: drive.rb URL VERB ARGUMENT...
require "google/apis/drive_v3"

url, verb, *arguments = ARGV
drive = Google::Apis::DriveV3::DriveService.new
drive.root_url = "#{url}/"
# Without a number the library gives up at the first fault.
drive.request_options.retries = 3
FIELDS = "id,name,mimeType,size,md5Checksum"

case verb
when "create"
  path, type = arguments
  puts drive.create_file({name: File.basename(path)}, upload_source: path, content_type: type, fields: FIELDS).to_json
when "update"
  id, path, type = arguments
  puts drive.update_file(id, upload_source: path, content_type: type, fields: FIELDS).to_json
when "download"
  $stdout.binmode
  drive.get_file(arguments[0], download_dest: $stdout)
when "list"
  drive.list_files(fields: "files(id)").files.each { |file| puts file.id }
when "delete"
  drive.delete_file(arguments[0])
else
  abort "no such verb: #{verb}"
end
